"""What a method of a fleet is, and what it may ask of the trainer: methods own networks and losses, never the loop.

A method that follows `Method` needs one file: `FleetTrainer(method)` moves, optimises and stores what it owns.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn

from pacesetter.agents.heads import Distribution
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import ConfigError
from pacesetter.learning.experience.market import FleetStep
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Extra
from pacesetter.learning.fleet_config import FleetConfig
from pacesetter.learning.learner import StepRecord

__all__ = [
    "Acting",
    "Agents",
    "AgentsT",
    "AgentsT_co",
    "Featuring",
    "FleetConfig",
    "FleetMethod",
    "Losses",
    "Market",
    "MarketOfSymbols",
    "MarketT",
    "MarketT_co",
    "Method",
    "SteppedMarket",
    "SteppedT",
    "Stepping",
]


# ---- what it is made for --------------------------------------------------------------------------------------------


class Coder(Protocol):
    """Observations to features, by way of a normaliser; `start` learns while the encoder does."""

    @property
    def start(self) -> torch.Tensor: ...
    @property
    def normaliser(self) -> ObservationNormaliser: ...
    def parameters(self) -> Iterator[nn.Parameter]: ...
    def __call__(self, observation: Tensors, /) -> torch.Tensor: ...


class Sized(Protocol):
    """Has features of a width."""

    @property
    def width(self) -> int: ...


class Agents(Protocol):
    """A fleet, or a master, which is a fleet of one; parameters outside its `encoder` are stacked by symbol."""

    frozen: torch.Tensor
    has_state_value: bool

    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def actions(self) -> int | None: ...
    @property
    def config(self) -> Sized: ...
    @property
    def encoder(self) -> Coder: ...
    def places(self, symbols: Iterable[str]) -> list[int]: ...
    def decide(
        self, features: torch.Tensor, mask: torch.Tensor | None = None, rows: torch.Tensor | None = None
    ) -> tuple[Distribution, torch.Tensor]: ...
    def value(self, features: torch.Tensor, rows: torch.Tensor | None = None) -> torch.Tensor: ...
    def to(self, device: torch.device, /) -> object: ...
    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]: ...
    def state_dict(self) -> Mapping[str, torch.Tensor]: ...
    def load_state_dict(self, state_dict: Mapping[str, torch.Tensor], /) -> object: ...


class Market(Protocol):
    """As many environments of each symbol, side by side, or stored rows in place of them, which have no `batch`.

    `tables` makes full observations of compact ones.
    """

    @property
    def envs_each(self) -> int: ...
    @property
    def device(self) -> torch.device: ...
    @property
    def batch(self) -> Batch | None: ...
    @property
    def symbols(self) -> tuple[str, ...]: ...
    @property
    def actions(self) -> int | None: ...
    @property
    def env_count(self) -> int: ...
    @property
    def shapes(self) -> Shapes: ...
    @property
    def tables(self) -> Callable[[Tensors], Tensors]: ...
    def reset(self) -> dict[str, torch.Tensor]: ...
    def state_dict(self) -> Mapping[str, object]: ...
    def load_state_dict(self, stored: Mapping[str, Any]) -> None: ...


class MarketOfSymbols(Market, Protocol):
    """One that can be had with some of its symbols alone."""

    def select(self, symbols: Collection[str]) -> MarketOfSymbols: ...


@runtime_checkable
class SteppedMarket(Market, Protocol):
    """One whose environments are stepped."""

    @property
    def batch(self) -> Batch: ...
    def step(self, actions: torch.Tensor) -> FleetStep: ...


AgentsT = TypeVar("AgentsT", bound=Agents)
MarketT = TypeVar("MarketT", bound=Market)
SteppedT = TypeVar("SteppedT", bound=SteppedMarket)
AgentsT_co = TypeVar("AgentsT_co", bound=Agents, covariant=True)
MarketT_co = TypeVar("MarketT_co", bound=Market, covariant=True)


# ---- the protocol ---------------------------------------------------------------------------------------------------


class Losses(NamedTuple):
    """What one batch came to, (symbol,) each, of the market's symbols.

    terms     whose sum is descended           metrics   what is logged, detached
    going     False where a symbol learns no more in this round; None: all that are not frozen do
    """

    terms: Mapping[str, torch.Tensor]
    metrics: Mapping[str, torch.Tensor]
    going: torch.Tensor | None = None


class Featuring(Protocol):
    """Gives the features of observations."""

    def features(self, observation: Tensors) -> torch.Tensor:
        """(row, width) float32 features of compact observations."""


class Stepping(Featuring, Protocol):
    """Steps environments, with the extras that are added to a method, by name."""

    @property
    def observation(self) -> dict[str, torch.Tensor]:
        """Compact entries (env, …) as the environments show them now."""

    @property
    def extras(self) -> Mapping[str, Extra]:
        """What is added to the method, by name."""

    def step_environments(self, actions: torch.Tensor, log_probs: torch.Tensor | None = None) -> FleetStep:
        """Step all environments by actions of these (env,) log-probabilities; what they show is `observation` then."""


class Acting(Stepping, Protocol):
    """What a method may ask of the trainer while it collects and learns."""

    @property
    def steps(self) -> int:
        """Environment steps of each symbol before this round."""

    @property
    def round_steps(self) -> int:
        """Those of this round."""

    def begin_episodes(self) -> None:
        """Begin an episode in every environment; what they show is `observation` then."""

    def receive(self, record: StepRecord, observation: Tensors) -> None:
        """Take steps that were made elsewhere: a run hears of them, and what was shown last is `observation` then."""


class Method(Protocol[AgentsT_co, MarketT_co]):
    """PPO, SAC …: `own` and the attributes in `declared` are what a checkpoint keeps of it beside the fleet.

    own               modules; parameters that require a gradient are (symbol, …), and the trainer optimises them
    has_state_value   whether the fleet's critic learns; where not, it is neither optimised nor exported
    segment_bars      rows of a batch that follow one another in time; None where batches are drawn row by row
    batch_rows        of each symbol in such a batch of segments
    is_recordable     whether all rounds make the same calls, so that they can be recorded; see `graphs`
    coefficients      options that may be scheduled beside the learning rates
    """

    own: nn.ModuleDict
    has_state_value: ClassVar[bool]
    segment_bars: int | None
    batch_rows: int
    is_recordable: ClassVar[bool]
    coefficients: ClassVar[tuple[str, ...]]
    declared: ClassVar[tuple[str, ...]]

    @property
    def config(self) -> FleetConfig: ...
    @property
    def fleet(self) -> AgentsT_co: ...
    @property
    def market(self) -> MarketT_co: ...
    @property
    def round_steps(self) -> int:
        """Environment steps of each symbol in a round."""

    def collect(self, acting: Acting) -> Any:
        """Experience of a round."""

    def batches(self, experience: Any, acting: Acting) -> Iterator[Transitions]:
        """What is to be learned from now, batch by batch; each is drawn when the one before it was learned."""

    def losses(self, batch: Transitions, features: torch.Tensor, acting: Acting) -> Losses:
        """The losses of a batch, whose observations have these features."""

    def after_step(self) -> None:
        """Let target networks follow, and the like."""

    def set_option(self, name: str, value: float) -> None:
        """Change an option while learning."""

    def release(self) -> None:
        """Let go of other processes when learning ends, by a stop or an error too; it may go on later."""

    def round_observations(self, experience: Any, acting: Acting) -> Tensors:
        """Observations (row, …) of the round for the normaliser to count."""

    def describe(self, experience: Any, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Figures of the round, (symbol,) each and `action_mix` (symbol, action); `metrics` are (batch, symbol)."""


class FleetMethod(ABC, Generic[AgentsT, MarketT]):
    """What methods share: which agents of the fleet the market's symbols are; a `Method` may do without it.

    symbols   how many the market has          present   (symbol,) their places in the fleet
    rows      the same, or None where they are all of the fleet in its order
    """

    has_state_value: ClassVar[bool] = True
    declared: ClassVar[tuple[str, ...]] = ()
    segment_bars: int | None = None
    batch_rows: int = 0
    is_recordable: ClassVar[bool] = False
    coefficients: ClassVar[tuple[str, ...]] = ()

    config: FleetConfig

    def __init__(self, fleet: AgentsT, market: MarketT, config: FleetConfig) -> None:
        if fleet.actions != market.actions:
            raise ConfigError(f"the fleet's actions ({fleet.actions}) are not the market's ({market.actions})")
        self.fleet, self.market, self.config = fleet, market, config
        self.device, self.symbols = market.device, len(market.symbols)
        places = fleet.places(market.symbols)
        self.present = torch.tensor(places, device=self.device)
        # None spares a gather of all stacked heads at every call.
        self.rows = None if places == list(range(len(fleet.symbols))) else self.present
        self.own = nn.ModuleDict()

    @property
    @abstractmethod
    def round_steps(self) -> int: ...

    def after_step(self) -> None:
        """Nothing follows a step."""

    def set_option(self, name: str, value: float) -> None:
        changed: dict[str, Any] = {name: value}
        self.config = dataclasses.replace(self.config, **changed)

    def release(self) -> None:
        """Nothing is held."""

    def by_row(self, rows: int) -> torch.Tensor:
        """(row,) the symbol of each of `rows` rows, those of a symbol side by side."""
        return torch.arange(self.symbols, device=self.device).repeat_interleave(rows // self.symbols)

    def per_symbol(self, values: torch.Tensor) -> torch.Tensor:
        """(symbol · n,) values as (symbol, n)."""
        return values.view(self.symbols, -1)
