"""What a method of a fleet is, and what it may ask of the trainer: methods own networks and losses, never the loop.

A method that follows `Method` needs one file: `FleetTrainer(method)` moves, optimises and stores what it owns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

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

__all__ = ["Acting", "Agents", "AgentsT", "FleetConfig", "FleetMethod", "Losses", "Market", "MarketT", "Method"]


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
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state_dict: Mapping[str, Any], /) -> object: ...


class Market(Protocol):
    """As many environments of each symbol, side by side; `tables` makes full observations of compact ones."""

    envs_each: int
    device: torch.device
    batch: Batch

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
    def step(self, actions: torch.Tensor) -> FleetStep: ...
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, stored: Mapping[str, Any]) -> None: ...


AgentsT = TypeVar("AgentsT", bound=Agents)
MarketT = TypeVar("MarketT", bound=Market)


# ---- the protocol ---------------------------------------------------------------------------------------------------


class Losses(NamedTuple):
    """What one batch came to, (symbol,) each, of the market's symbols.

    terms     whose sum is descended           metrics   what is logged, detached
    going     False where a symbol learns no more in this round; None: all that are not frozen do
    """

    terms: Mapping[str, torch.Tensor]
    metrics: Mapping[str, torch.Tensor]
    going: torch.Tensor | None = None


class Acting(Protocol):
    """What a method may ask of the trainer while it collects and learns."""

    @property
    def observation(self) -> dict[str, torch.Tensor]:
        """Compact entries (env, …) as the environments show them now."""

    @property
    def steps(self) -> int:
        """Environment steps of each symbol before this round."""

    @property
    def round_steps(self) -> int:
        """Those of this round."""

    @property
    def extras(self) -> Mapping[str, Extra]:
        """What is added to the method, by name."""

    def features(self, observation: Tensors) -> torch.Tensor:
        """(row, width) float32 features of compact observations."""

    def begin_episodes(self) -> None:
        """Begin an episode in every environment; what they show is `observation` then."""

    def receive(self, record: StepRecord, observation: Tensors) -> None:
        """Take steps that were made elsewhere: a run hears of them, and what was shown last is `observation` then."""

    def step_environments(self, actions: torch.Tensor, log_probs: torch.Tensor | None = None) -> FleetStep:
        """Step all environments by actions of these (env,) log-probabilities; what they show is `observation` then."""


class Method(Protocol):
    """PPO, SAC …: `own` and the attributes in `declared` are what a checkpoint keeps of it beside the fleet.

    own               modules; parameters that require a gradient are (symbol, …), and the trainer optimises them
    has_state_value   whether the fleet's critic learns; where not, it is neither optimised nor exported
    segment_bars      rows of a batch that follow one another in time; None where batches are drawn row by row
    is_recordable     whether all rounds make the same calls, so that they can be recorded; see `graphs`
    coefficients      options that may be scheduled beside the learning rates
    """

    own: nn.ModuleDict
    has_state_value: ClassVar[bool]
    segment_bars: int | None
    config: Any
    is_recordable: ClassVar[bool]
    coefficients: ClassVar[tuple[str, ...]]
    declared: ClassVar[tuple[str, ...]]

    @property
    def fleet(self) -> Any: ...
    @property
    def market(self) -> Any: ...
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
    is_recordable: ClassVar[bool] = False
    coefficients: ClassVar[tuple[str, ...]] = ()

    def __init__(self, fleet: AgentsT, market: MarketT, config: Any) -> None:
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

    def release(self) -> None:
        """Nothing is held."""

    def by_row(self, rows: int) -> torch.Tensor:
        """(row,) the symbol of each of `rows` rows, those of a symbol side by side."""
        return torch.arange(self.symbols, device=self.device).repeat_interleave(rows // self.symbols)

    def per_symbol(self, values: torch.Tensor) -> torch.Tensor:
        """(symbol · n,) values as (symbol, n)."""
        return values.view(self.symbols, -1)
