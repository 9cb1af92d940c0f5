"""What every fleet algorithm shares: the encoder on gathered windows, optimisers, rounds, and an exact resume."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution
from pacesetter.agents.layout import Shapes, Tensors
from pacesetter.agents.normaliser import ObservationNormaliser
from pacesetter.envs.batch.batch import Batch
from pacesetter.errors import ConfigError, RunError, check_range, did_you_mean
from pacesetter.learning.experience.market import FleetMarket, FleetStep
from pacesetter.learning.extras.curiosity import Curiosity, CuriosityConfig
from pacesetter.learning.fleet.clock import Clock
from pacesetter.learning.fleet.optimiser import StackedAdam, clip_each
from pacesetter.learning.fleet.storage import load_fleet
from pacesetter.learning.learner import Between, Watcher
from pacesetter.learning.state import read_header, read_state, tensors_hash, write_state

__all__ = ["Agents", "AgentsT", "FleetConfig", "FleetLearner", "Market", "MarketT"]

MOST_COUNTED = 4_096  # observations that the normaliser counts of one round
COUNTS = (
    "n_steps",
    "n_epochs",
    "train_freq",
    "gradient_steps",
    "batch_size",
    "buffer_size",
)  # of the algorithms that have them
EPSILON = 1e-5  # Adam's, as is the custom in PPO


@dataclass(frozen=True)
class FleetConfig:
    """Options of every fleet algorithm.

    learning_rate       of the heads; the encoder has its own, since every symbol pulls at it
    gamma               of the next bar; most of what an order earns comes soon, and later bars only add noise
    max_grad_norm       of the encoder, and of each symbol's heads
    precision           of the encoder; heads, losses and weights are float32
    compile             fuse the encoder by torch.compile, which pays on a GPU
    curiosity           adds an intrinsic reward; None does without
    """

    learning_rate: float = 1e-3
    encoder_learning_rate: float = 1e-3
    gamma: float = 0.9
    max_grad_norm: float = 0.5
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    curiosity: CuriosityConfig | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("learning_rate", "encoder_learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"agent.{name}={getattr(self, name)} must be above 0")
        check_range(1, owner="agent", **{name: getattr(self, name, 1) for name in COUNTS})
        check_range(0, 1, owner="agent", gamma=self.gamma)


# ---- what it asks for -----------------------------------------------------------------------------------------------


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


# ---- the learner ----------------------------------------------------------------------------------------------------


class FleetLearner(ABC, Generic[AgentsT, MarketT]):
    """A fleet that learns in a market of its symbols, or of some of them; it moves the fleet to the market's device.

    steps        environment steps so far of each symbol
    statistics   of the latest round, by symbol
    clock        seconds in sections `rollout`, `environment` inside it, and `update`
    """

    statistics: Any

    def __init__(self, fleet: AgentsT, market: MarketT, config: FleetConfig) -> None:
        if fleet.actions != market.actions:
            raise ConfigError(f"the fleet's actions ({fleet.actions}) are not the market's ({market.actions})")
        torch.manual_seed(config.seed)
        fleet.to(market.device)
        self.fleet, self.market, self.config = fleet, market, config
        self.device, self.clock, self.steps = market.device, Clock(market.device), 0
        self.symbols = len(market.symbols)
        places = fleet.places(market.symbols)
        self.present = torch.tensor(places, device=self.device)
        self.rows = None if places == list(range(len(fleet.symbols))) else self.present
        self.encode = torch.compile(self._encode, dynamic=False) if config.compile else self._encode
        self.encoder_optimiser = torch.optim.Adam(fleet.encoder.parameters(), config.encoder_learning_rate, eps=EPSILON)
        self.head_parameters = self.heads()
        self.head_optimiser = StackedAdam(self.head_parameters, config.learning_rate, eps=EPSILON)
        self.curiosity = None
        if config.curiosity is not None:
            self.curiosity = Curiosity(fleet.config.width, fleet.actions, config.curiosity).to(self.device)
        self.seen = market.reset()
        self.count(self.seen)

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, steps: int, watcher: Watcher | None = None) -> None:
        """Train until each symbol has made `steps` environment steps."""
        watcher = watcher or Between()
        while self.steps < steps:
            watcher.between()
            if self.is_encoder_learning:
                self.fleet.encoder.normaliser.commit()
            self.round()

    @property
    def is_encoder_learning(self) -> bool:
        """False where the encoder is frozen, its normaliser included."""
        return self.fleet.encoder.start.requires_grad

    @abstractmethod
    def heads(self) -> list[nn.Parameter]:
        """The stacked parameters (symbol, …) that it trains."""

    @abstractmethod
    def round(self) -> None:
        """Collect experience, learn from it, and count the steps."""

    def decide(self, seen: Tensors) -> tuple[Distribution, torch.Tensor]:
        """Distribution of actions and values (env,) of compact observations (symbol · n, …)."""
        return self.fleet.decide(self.features(seen), seen.get(ACTION_MASK), self.rows)

    def features(self, seen: Tensors) -> torch.Tensor:
        """(env, width) float32 features of compact observations."""
        return self.encode({name: entry for name, entry in seen.items() if name != ACTION_MASK})

    def _encode(self, seen: Tensors) -> torch.Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            return self.fleet.encoder(self.market.tables(seen)).float()

    def count(self, seen: Tensors) -> None:
        """Let the normaliser count some of these observations (row, …); a frozen encoder keeps what it has."""
        if self.is_encoder_learning:
            rows = len(next(iter(seen.values())))
            chosen = torch.linspace(0, rows - 1, min(rows, MOST_COUNTED), device=self.device).long()
            some = {name: entry[chosen] for name, entry in seen.items() if name != ACTION_MASK}
            self.fleet.encoder.normaliser.observe(self.market.tables(some))

    def descend(self, losses: torch.Tensor, going: torch.Tensor) -> None:
        """One step down the `losses` (symbol,) of the market's symbols that are still `going`.

        Heads get the gradient that their agent would get alone, the encoder the mean over the symbols.
        """
        self.encoder_optimiser.zero_grad()
        self.head_optimiser.zero_grad()
        torch.where(going, losses, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        shared = [parameter for parameter in self.fleet.encoder.parameters() if parameter.grad is not None]
        for parameter in shared:
            parameter.grad.div_(going.sum().clamp(min=1))  # type: ignore[union-attr]
        torch.nn.utils.clip_grad_norm_(shared, self.config.max_grad_norm)
        clip_each(self.head_parameters, self.config.max_grad_norm)
        self.encoder_optimiser.step()
        moving = torch.zeros_like(self.fleet.frozen)
        moving[self.present] = going
        self.head_optimiser.step(moving & ~self.fleet.frozen)

    # ---- looking and changing -------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """The same as `steps`, by the name that a run knows."""
        return self.steps

    @property
    def round_steps(self) -> int:
        """Environment steps of each symbol in a round; learning ends with a whole one."""
        config: Any = self.config
        return int((config.n_steps if hasattr(config, "n_steps") else config.train_freq) * self.market.envs_each)

    def losses(self) -> dict[str, float]:
        """Means over the symbols of what the latest round logged; nothing before the first."""
        logged = self.statistics._asdict() if hasattr(self, "statistics") else {}
        return {name: float(values.mean()) for name, values in logged.items() if name.endswith("loss")}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what the encoder takes."""
        return {name: tuple(shape) for name, shape in self.market.shapes.items()}

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and tensor of everything that acts."""
        return self.fleet.named_parameters()

    def weights_hash(self) -> str:
        """SHA-256 over names and bytes of the fleet's weights."""
        return tensors_hash(self.fleet.state_dict())

    def set(self, name: str, value: float) -> None:
        """Change a learning rate while learning; refuses another name."""
        rates = {"learning_rate": self.head_optimiser, "encoder_learning_rate": self.encoder_optimiser}
        if name not in rates:
            known = did_you_mean(name, rates)
            raise ConfigError(f"train.schedules names '{name}', which a fleet does not schedule{known}")
        for group in rates[name].param_groups:
            group["lr"] = value

    def freeze(self: FleetLearner[Fleet, FleetMarket], parts: tuple[str, ...]) -> None:
        """Keep the encoder as it is; a fleet freezes no other part."""
        if set(parts) - {"encoder"}:
            raise ConfigError(f"train.freeze={list(parts)}: of a fleet the encoder can be frozen; give [encoder]")
        self.fleet.freeze_encoder("encoder" in parts)

    def take_weights(self: FleetLearner[Fleet, FleetMarket], folder: str | Path) -> int:
        """Begin with the encoder of a stored fleet or direction classifier, and the heads of symbols that both know.

        Gives how many tensors were taken; refuses an encoder of another size.
        """
        if (Path(folder) / "state.json").is_file():
            from pacesetter.learning.supervised.forecasts import Forecasts
            from pacesetter.learning.supervised.transfer import (
                fit_encoder,  # knows Stable-Baselines3, which a fleet does without
            )

            return fit_encoder(Forecasts.load(folder).model, self.fleet.encoder)
        stored = load_fleet(folder)
        self.fleet.use_encoder(stored.encoder)
        common = [symbol for symbol in self.fleet.symbols if symbol in stored.symbols]
        for symbol, row in zip(common, self.fleet.places(common), strict=True):
            agent = stored.take(symbol)
            self.fleet.actor.write(row, agent.actor.layers)
            self.fleet.critic.write(row, agent.critic.layers)
        return len(self.fleet.state_dict() if common else self.fleet.encoder.state_dict())

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """All that decides how learning goes on, between rounds."""
        return {
            "fleet": self.fleet.state_dict(),
            "encoder_optimiser": self.encoder_optimiser.state_dict(),
            "head_optimiser": self.head_optimiser.state_dict(),
            "market": self.market.state_dict(),
            "seen": self.seen,
            "curiosity": None if self.curiosity is None else self.curiosity.learned(),
            "steps": self.steps,
            "random": torch.get_rng_state(),
            "device_random": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Go on from what `state_dict` gave, bit for bit on the same kind of device."""
        self.fleet.load_state_dict(stored["fleet"])
        self.encoder_optimiser.load_state_dict(stored["encoder_optimiser"])
        self.head_optimiser.load_state_dict(stored["head_optimiser"])
        self.market.load_state_dict(stored["market"])
        self.seen = {name: entry.to(self.device) for name, entry in stored["seen"].items()}
        if self.curiosity is not None:
            self.curiosity.load_learned(stored["curiosity"])
        self.steps = stored["steps"]
        torch.set_rng_state(stored["random"])
        if stored["device_random"] is not None:
            torch.cuda.set_rng_state(stored["device_random"], self.device)

    def save(
        self, folder: str | Path, header: Mapping[str, Any] | None = None, more: Mapping[str, Any] | None = None
    ) -> Path:
        """Store all of it, and `more` beside it, without pickle; the header says what it is of."""
        told = {"learner": self._described()} | dict(header or {})
        return write_state(folder, told, self.state_dict() | {"run": dict(more or {})})

    def load(self, folder: str | Path) -> dict[str, Any]:
        """Go on from what `save` stored, and give its `more`; refuses another algorithm, configuration or symbols."""
        stored = read_header(folder)["learner"]
        for name, value in self._described().items():
            if stored.get(name) != value:
                raise RunError(f"{folder} was stored with {name}={stored.get(name)}, not {value}; resume with its own")
        state = read_state(folder)
        self.load_state_dict(state)
        return dict(state["run"])

    def _described(self) -> dict[str, Any]:
        config = dataclasses.asdict(self.config)
        return {"algorithm": type(self.config).__name__, "config": config, "symbols": list(self.fleet.symbols)}
