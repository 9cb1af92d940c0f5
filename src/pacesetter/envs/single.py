"""One environment as Gymnasium wants it: a batch of one account, its observations views that nothing overwrites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import gymnasium
import numpy as np
from gymnasium import spaces

from pacesetter.arrays import Array
from pacesetter.envs.batch.bank import Bank, check_kind
from pacesetter.envs.batch.batch import Batch, BatchOptions
from pacesetter.envs.batch.rows import Cursor
from pacesetter.envs.journal import EpisodeJournal
from pacesetter.envs.render import chart, text_line
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.market.ledger import Column
from pacesetter.market.orders import Discrete, target_range
from pacesetter.market.parameters import MarketParameters

if TYPE_CHECKING:
    from pacesetter.features.table import FeatureTable
    from pacesetter.panel import Panel

__all__ = [
    "EnvOptions",
    "Observation",
    "SingleEnv",
    "action_space",
    "check_options",
    "check_reset",
    "observation_space",
]

Observation = dict[str, Array]
LARGEST = float(np.finfo(np.float32).max)  # raw features have no common bound, and Gymnasium wants one
RENDER_MODES = ("human", "rgb_array")
EQUITY = int(Column.EQUITY)
HANDED_ON = {*signature(Batch).parameters} - {"bank", "env_count", "restarts"}  # options of an environment's batch
NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def observation_space(batch: Batch) -> spaces.Dict:
    """A float32 box for each entry of an observation; `index` holds the block and the bar."""
    boxes: dict[str, spaces.Space[Any]] = {
        entry: spaces.Box(-LARGEST, LARGEST, shape, np.float32) for entry, shape in batch.builder.shapes.items()
    }
    if not batch.has_windows:
        ends = np.array(batch.bank.bars.shape[:2]) - 1
        boxes["index"] = spaces.Box(np.zeros(2, np.int64), ends.astype(np.int64), dtype=np.int64)
    return spaces.Dict(boxes)


def action_space(batch: Batch) -> spaces.Space[Any]:
    """Seven orders, one such choice for each symbol, or a box of numbers: of targets 0 or −cap … cap."""
    width = batch.inputs.shape[1]
    if batch.action == "discrete":
        return spaces.MultiDiscrete([len(Discrete)] * width) if batch.bank.is_whole else spaces.Discrete(len(Discrete))
    # Beyond the cap all targets mean the cap: an agent would learn in a range of which most is one action.
    low, high = target_range(batch.market) if batch.action == "target" else (-1.0, 1.0)
    return spaces.Box(low, high, (width,), np.float32)


def check_options(kind: type, options: Iterable[str]) -> None:
    """Refuse an option that the batch does not take, with the nearest of all that an environment of `kind` takes."""
    taken = [part for owner in (kind, *kind.__bases__) for part in signature(owner).parameters.values()]
    known = HANDED_ON | {part.name for part in taken if part.kind in NAMED}
    for name in options:
        if name not in HANDED_ON:
            raise ConfigError(f"{kind.__name__} has no option '{name}'{did_you_mean(name, known)}")


def check_reset(options: Mapping[str, object] | None, *known: str) -> None:
    """Refuse an option of `reset` that is not known."""
    for name in options or ():
        if name not in known:
            raise ConfigError(f"reset has no option '{name}'{did_you_mean(str(name), known)}")


class EnvOptions(BatchOptions, total=False):
    """Options of a single environment beside panel and symbols; see `SingleEnv`."""

    table: FeatureTable | Sequence[FeatureTable] | None
    supervised: Array | Sequence[Array] | None
    record: bool
    render_mode: str | None


class SingleEnv(gymnasium.Env[Observation, object]):
    """What `TradingEnv` and `PortfolioEnv` share.

    `info` of a step: `equity`; `reward`, each raw component; `ledger` (Column,) of the step. Of a reset: `symbols` and
    `bar`. With `record`, the episode's ledger and fills are in `journal`. Other options are those of `Batch`.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 10}  # noqa: RUF012 - Gymnasium's form
    is_whole: ClassVar[bool]

    def __init__(
        self,
        panel: Panel | Sequence[Panel],
        symbols: str | Sequence[str] | None,
        /,
        *,
        table: FeatureTable | Sequence[FeatureTable] | None = None,
        supervised: Array | Sequence[Array] | None = None,
        action: str = "discrete",
        record: bool = False,
        render_mode: str | None = None,
        **options: Unpack[BatchOptions],
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ConfigError(f"render_mode='{render_mode}' is unknown{did_you_mean(str(render_mode), RENDER_MODES)}")
        check_options(type(self), options)
        check_kind(bool, record=record)
        bank = Bank.from_panels(panel, table, supervised, symbols=symbols, is_whole=self.is_whole)
        # Gymnasium's single environments are reset by the caller.
        self.batch = Batch(bank, restarts=False, action=action, **options)
        self.render_mode = render_mode
        self.journal = EpisodeJournal(bank, self.batch.components) if record or render_mode else None
        self.observation_space = observation_space(self.batch)
        self.action_space = action_space(self.batch)
        self._is_over, self._block, self._time = True, 0, 0

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Entry of the observation -> names of its last axis."""
        return self.batch.bank.names

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[Observation, dict[str, object]]:
        """Begin an episode; with a seed the starts are drawn again from it. There are no options."""
        check_reset(options)
        if seed is not None:
            self.batch.seed([seed])
        super().reset(seed=None if seed is None else int(seed))  # Gymnasium takes no whole number of NumPy
        vectors = self.batch.restart()
        self._block, self._time = self.batch.cursor[0, : Cursor.FINAL_BLOCK].tolist()
        self._is_over = False
        if self.journal is not None:
            self.journal.begin(self._block, self._time)
        observation = self._complete(self.batch.builder.build(self._block, self._time, vectors[0, 0]))
        return observation, {"symbols": self.batch.bank.symbols[self._block], "bar": self._time}

    def step(self, action: object) -> tuple[Observation, float, bool, bool, dict[str, object]]:
        """Decide at this close, fill in the next bar, and see its close."""
        if self._is_over:
            raise ConfigError("there is no open episode: call reset() first")
        # Copies, because the compiled step writes into the same arrays each time.
        row, vector, outcome = self.batch.step_alone(action)
        self._time += 1
        reward, growth, terminated, truncated = outcome
        components = {"pnl": growth}
        if not self.batch.is_pnl_only:
            rewards, raw = self.batch.rewards(row[None], np.array(outcome)[:, None])
            reward, components = rewards.item(), dict(zip(self.batch.components, raw[:, 0].tolist(), strict=True))
        self._is_over = terminated + truncated > 0.0
        info = {"equity": row.item(EQUITY), "reward": components, "ledger": row}
        if self.journal is not None:
            self._record(reward, row, components)
        observation = self.batch.builder.build(self._block, self._time, vector)
        if self.is_whole:
            observation = self._complete(observation)
        return observation, reward, terminated > 0.0, truncated > 0.0, info

    def action_masks(self) -> Array:
        """(K · 7,) True where a discrete order would be sent now; MaskablePPO asks for it."""
        masks: Array = self.batch.action_masks()[0]
        return masks

    def use_market(self, market: MarketParameters) -> None:
        """Trade under other market parameters from the next episode on."""
        self.batch.use_market(market)

    def render(self) -> Any:
        """None after printing a line ("human"), or an (height, width, 3) picture of the episode ("rgb_array")."""
        if self.render_mode == "rgb_array" and self.journal is not None:
            return chart(self.journal)
        return None

    def _complete(self, observation: Observation) -> Observation:
        """What a portfolio adds to the observation."""
        return observation

    def _record(self, reward: float, row: Array, components: dict[str, float]) -> None:
        assert self.journal is not None
        self.journal.add(row, self.batch.fills[0], reward, components)
        if self.render_mode == "human":
            print(text_line(self.journal))
