"""The reward of a batch of accounts: components → normalisation → smoothing → weights → one number → clip."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Annotated, Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, check_range, did_you_mean
from pacesetter.market.ledger import LEDGER_COLUMNS
from pacesetter.registry import configure
from pacesetter.rewards.component import INTERPRETED, REWARDS, Component
from pacesetter.rewards.elementwise import namespace, where
from pacesetter.rewards.rows import evaluate
from pacesetter.rewards.scalarise import chebyshev, weighted_sum
from pacesetter.rewards.schedule import Schedule
from pacesetter.rewards.shaping import NO_STATISTICS, merge, normalise, smooth, summarise

__all__ = ["Reward", "RewardConfig", "RewardValues", "Term"]

Scalarisation = Literal["weighted_sum", "chebyshev"]
Paid = Literal["bar", "episode"]


@dataclass(frozen=True)
class Term:
    """How one component enters the reward.

    weight            a number, or a `Schedule` (or its options) over steps
    options           the component's own, by name
    normalise         by running statistics over all environments: zscore, or minmax to [-1, 1]
    smoothing_steps   span of the moving average, s ← s + 2/(span + 1)·(x − s); 1 is none
    """

    weight: Any = 1.0  # checked by `_read_term`
    options: dict[str, float] = field(default_factory=dict)
    normalise: Literal["none", "zscore", "minmax"] = "none"
    smoothing_steps: int = 1

    def weight_at(self, step: int) -> float:
        """The weight after `step` environment steps."""
        return self.weight.at(step) if isinstance(self.weight, Schedule) else float(self.weight)

    @property
    def lowest_weight(self) -> float:
        """The least that the weight ever is."""
        return (
            min(value for _, value in self.weight.points) if isinstance(self.weight, Schedule) else float(self.weight)
        )


@dataclass(frozen=True)
class RewardConfig:
    """Which components make the reward, and how."""

    components: Annotated[
        dict[str, Any],
        "name -> a weight, or a `Term` (or its options)",
    ] = field(default_factory=lambda: {"pnl": 1.0})
    scalarisation: Annotated[
        Scalarisation,
        "weighted_sum, or chebyshev: −max_c w_c·|reference_c − x_c|",
    ] = "weighted_sum"
    reference: Annotated[
        dict[str, float],
        "chebyshev's reference point by component; 1, the best of a scaled component, where not given",
    ] = field(default_factory=dict)
    clip: Annotated[float | None, "the reward of a bar is kept within ±clip; None leaves it"] = 1.0
    paid: Annotated[
        Paid,
        "bar, or episode: all that the bars of an episode earned is paid at its end, and nothing before",
    ] = "bar"

    def __post_init__(self) -> None:
        if not isinstance(self.components, Mapping) or not self.components:
            raise ConfigError(f"reward.components={self.components!r}: name one or more, e.g. {{pnl: 1.0}}")
        terms = {name: _read_term(name, value) for name, value in self.components.items()}
        object.__setattr__(self, "components", terms)
        if self.scalarisation not in get_args(Scalarisation):
            known = did_you_mean(str(self.scalarisation), get_args(Scalarisation))
            raise ConfigError(f"reward.scalarisation={self.scalarisation!r} is unknown{known}")
        if self.paid not in get_args(Paid):
            raise ConfigError(f"reward.paid={self.paid!r} is unknown{did_you_mean(str(self.paid), get_args(Paid))}")
        if self.clip is not None and not (_is_finite_number(self.clip) and self.clip > 0):
            raise ConfigError(f"reward.clip={self.clip!r} is out of range; give a bound above 0, or None for none")
        for name, value in self.reference.items():
            if name not in terms:
                raise ConfigError(f"reward.reference names '{name}', not a component{did_you_mean(name, terms)}")
            if not _is_finite_number(value):
                raise ConfigError(f"reward.reference.{name}={value!r} is not a finite number; give one")
        if self.scalarisation == "chebyshev" and any(term.lowest_weight < 0 for term in terms.values()):
            raise ConfigError("chebyshev weights must not be negative; give weights of at least 0")


class RewardValues(NamedTuple):
    """The rewards of one step: `total` (env,), `raw` and `shaped` (env, component), and the `weights` (component,)."""

    total: Array
    raw: Array
    shaped: Array
    weights: Array


class Reward:
    """Maps the ledger of a step, (env, column) float64, to `RewardValues`; NumPy, or torch on `device` where given.

    `names` orders the components, `weights` are the current ones. What it remembers is in `state_dict()`; `reset(rows)`
    starts accounts over. `columns` names the ledger's columns, for environments with a ledger of their own. A hole
    (NaN, infinity) in a column that a component reads is refused before anything is remembered; a component that makes
    one itself is refused too.
    """

    def __init__(
        self,
        config: RewardConfig,
        env_count: int,
        columns: Sequence[str] = LEDGER_COLUMNS,
        device: str | None = None,
    ) -> None:
        self.config, self.device, self.steps = config, device, 0
        self.columns = tuple(columns)
        self.names = tuple(config.components)
        self._terms: tuple[Term, ...] = tuple(config.components.values())
        self._components = tuple(REWARDS[name] for name in self.names)
        self._places = tuple(self._find(name) for name in self.names)
        # Only columns that some component reads are checked: the others may be NaN.
        self._watched = np.unique(np.concatenate([*map(np.array, self._places), []])).astype(np.int64)
        self._set_up_components(env_count)
        self._set_up_shaping(env_count)
        self.owed = self._array(np.zeros(env_count))  # earned in the episode and not yet paid
        self._reference = self._array([[config.reference.get(name, 1.0)] for name in self.names])
        self._is_scheduled = any(isinstance(term.weight, Schedule) for term in self._terms)
        self._row_weights: Array | None = None
        self._weigh()
        self._shape_of_ledger = (env_count, len(self.columns))

    def __call__(self, ledger: Array, ended: Array | None = None) -> RewardValues:
        """The rewards of one step of every environment; the arrays are the caller's to keep.

        `ended` (env,) says whose episode this step ended: with paid=episode they get all that theirs earned, and the
        others 0. Without it every bar is paid.
        """
        raw = self._evaluate(ledger)
        shaped = self._shape(raw)
        # Weights of the steps before this one: a schedule counts steps that are done.
        if self._is_scheduled:
            self._weigh()
        if self.config.scalarisation == "chebyshev":
            total = chebyshev(shaped, self._weight_column, self._reference)
        else:
            total = weighted_sum(shaped, self._weight_column)
        clip = self.config.clip
        if clip is not None:
            total = total.clip(-clip, clip)
        if ended is not None and self.config.paid == "episode":
            self.owed = self.owed + total
            total, self.owed = where(ended, self.owed, 0.0), where(ended, 0.0, self.owed)  # type: ignore[arg-type]
        self.steps += ledger.shape[0]
        return RewardValues(total, raw.T, shaped.T, self.weights)

    def use_weights(self, weights: ArrayLike) -> None:
        """Weigh each environment by its own (component, env) weights from now on."""
        self._row_weights = self._array(weights)
        self._weigh()

    def reset(self, rows: Array | slice) -> None:
        """Forget what is remembered of the environments `rows` (indices, a mask or a slice); statistics stay."""
        self.state[rows] = self._initial
        # NaN makes the next value start the moving average.
        self.smoothed[rows] = float("nan")
        self.owed[rows] = 0.0

    def again(self, env_count: int) -> Reward:
        """The same for another number of environments, none of which it remembers."""
        return Reward(self.config, env_count, self.columns, self.device)

    def state_dict(self) -> dict[str, Array]:
        """Copies of all that is remembered, as float64 arrays: component states, moving averages, statistics, steps."""
        return {name: values + 0.0 for name, values in self._remembered.items()} | {"steps": self._array([self.steps])}

    def load_state_dict(self, stored: Mapping[str, Array]) -> None:
        """Restore what `state_dict` gave; refuses arrays of another shape."""
        for name, values in self.state_dict().items():
            if name not in stored or tuple(stored[name].shape) != tuple(values.shape):
                raise ConfigError(
                    f"stored reward '{name}' does not match {tuple(values.shape)} of {len(self.names)} components; "
                    "use the reward config and environment count that it was stored with"
                )
        for name, values in self._remembered.items():
            values[:] = self._array(stored[name])
        self.steps = int(stored["steps"][0])

    @property
    def _remembered(self) -> dict[str, Array]:
        owed = {"owed": self.owed} if self.config.paid == "episode" else {}
        return {"state": self.state, "smoothed": self.smoothed, "statistics": self.statistics, **owed}

    # ---- setting up -----------------------------------------------------------------------------------------------

    def _find(self, name: str) -> tuple[int, ...]:
        """Places in the ledger of the columns that component `name` reads."""
        for column in REWARDS[name].columns:
            if column not in self.columns:
                known = did_you_mean(column, self.columns)
                raise ConfigError(f"reward '{name}' reads ledger column '{column}', which does not exist{known}")
        return tuple(self.columns.index(column) for column in REWARDS[name].columns)

    def _set_up_components(self, env_count: int) -> None:
        sizes = [len(part.initial) for part in self._components]
        self._offsets = np.cumsum([0, *sizes])[:-1]
        self._initial = self._array([value for part in self._components for value in part.initial])
        self.state = self._array(np.zeros((env_count, sum(sizes)))) + self._initial
        pairs = zip(self.names, self._components, self._terms, strict=True)
        self._options = [
            part.options_with(term.options, f"reward.components.{name}.options") for name, part, term in pairs
        ]
        self._packed = np.zeros((len(self.names), max(map(len, self._options))))
        for row, options in zip(self._packed, self._options, strict=True):
            row[: len(options)] = options
        self._codes = np.array([self._code(part) for part in self._components])
        self._interpreted = np.flatnonzero(self._codes == INTERPRETED).tolist()

    def _code(self, part: Component) -> int:
        """The compiled set reads the market's ledger as NumPy; elsewhere every formula runs on arrays."""
        return part.code if self.device is None and self.columns == LEDGER_COLUMNS else INTERPRETED

    def _set_up_shaping(self, env_count: int) -> None:
        count = len(self.names)
        kinds = [term.normalise for term in self._terms]
        self._is_zscore = self._array([kind == "zscore" for kind in kinds]) > 0
        self._is_minmax = self._array([kind == "minmax" for kind in kinds]) > 0
        self._is_normalised = any(kind != "none" for kind in kinds)
        self.statistics = self._array(np.tile(NO_STATISTICS, (count, 1)).T)
        self._rates = self._array([2.0 / (term.smoothing_steps + 1) for term in self._terms])
        self._is_smoothed = any(term.smoothing_steps > 1 for term in self._terms)
        self.smoothed = self._array(np.full((env_count, count), np.nan))

    def _array(self, values: ArrayLike) -> Any:
        if self.device is None:
            return np.array(values, dtype=np.float64)
        import torch

        return torch.as_tensor(values, dtype=torch.float64, device=self.device)

    def _empty(self, shape: tuple[int, ...]) -> Any:
        if self.device is None:
            return np.empty(shape)
        import torch

        return torch.empty(shape, dtype=torch.float64, device=self.device)

    # ---- one step -------------------------------------------------------------------------------------------------

    def _evaluate(self, ledger: Array) -> Array:
        """(component, env) raw values."""
        if ledger.shape != self._shape_of_ledger:
            raise DataError(
                f"the ledger has shape {tuple(ledger.shape)}; the reward was made for (environments, columns) = "
                f"{self._shape_of_ledger}"
            )
        values: Array = self._empty((len(self.names), ledger.shape[0]))
        hole = self._fill(ledger, values)
        if hole >= 0:
            raise self._hole_in_ledger(ledger[hole], hole)
        # After the check of the ledger: a refused step must not change what components remember.
        for index in self._interpreted:
            values[index] = self._interpret(index, ledger)
        return values

    def _fill(self, ledger: Array, values: Array) -> int:
        """Write what is compiled into (component, env) `values`; gives a row with a hole, or −1."""
        if self.device is None:
            return int(evaluate(ledger, self._watched, self._codes, self._offsets, self._packed, self.state, values))
        return first_hole(ledger[:, self._watched])

    def _interpret(self, index: int, ledger: Array) -> Array:
        """(env,) values of a component that is not compiled."""
        part, offset = self._components[index], self._offsets[index]
        columns = [ledger[:, place] for place in self._places[index]]
        state = self.state[:, offset : offset + len(part.initial)]
        values = part.evaluate(columns, state, self._options[index])
        hole = first_hole(values[:, None])
        if hole >= 0:
            raise DataError(
                f"reward component '{self.names[index]}' gave {float(values[hole])} for environment {hole} from a "
                "ledger without NaN; make its formula safe, e.g. against a division by 0"
            )
        return values

    def _hole_in_ledger(self, row: Array, env: int) -> DataError:
        place = next(int(place) for place in self._watched if not math.isfinite(row[place]))
        name = next(name for name, places in zip(self.names, self._places, strict=True) if place in places)
        return DataError(
            f"ledger column '{self.columns[place]}' of environment {env} is {float(row[place])}, and reward component "
            f"'{name}' reads it; check the bars and actions that the market was given"
        )

    def _shape(self, raw: Array) -> Array:
        """(component, env) normalised and smoothed values."""
        shaped = raw
        if self._is_normalised:
            # Before normalising: the first batch would otherwise have no statistics.
            self.statistics = merge(self.statistics, summarise(raw))
            shaped = normalise(shaped, self.statistics, self._is_zscore, self._is_minmax)
        if self._is_smoothed:
            shaped = smooth(shaped, self.smoothed.T, self._rates)
            self.smoothed[:] = shaped.T
        return shaped

    def _weigh(self) -> None:
        """Set the (component,) weights to those after the steps so far, or to those of each environment."""
        if self._row_weights is not None:
            self.weights = self._weight_column = self._row_weights
            return
        self.weights = self._array([term.weight_at(self.steps) for term in self._terms])
        self._weight_column = self.weights[:, None]


def first_hole(values: Array) -> int:
    """The first row of (env, any) values that has NaN or infinity; −1 without one."""
    is_whole = namespace(values).isfinite(values).all(1)
    return -1 if bool(is_whole.all()) else int(is_whole.tolist().index(False))


def _read_term(name: str, value: object) -> Term:
    """A checked `Term` from a weight, a schedule, a term, or the plain options of one of these."""
    where = f"reward.components.{name}"
    component = REWARDS[name]
    if isinstance(value, Term):
        value = vars(value)
    # A mapping with these keys is a schedule, i.e. a weight; any other mapping is the options of a term.
    elif not isinstance(value, Mapping) or {"kind", "points"} & set(value):
        value = {"weight": value}
    term = configure(Term, value, where)
    if isinstance(term.weight, Mapping):
        term = replace(term, weight=configure(Schedule, term.weight, f"{where}.weight"))
    if not isinstance(term.weight, Schedule) and not _is_finite_number(term.weight):
        raise ConfigError(f"{where}.weight={term.weight!r} is not a finite number; give one, or a schedule")
    check_range(1, owner=where, smoothing_steps=term.smoothing_steps)
    component.options_with(term.options, f"{where}.options")
    return term


def _is_finite_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
