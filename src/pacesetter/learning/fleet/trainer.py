"""The trainer of a fleet, and of a master: it owns the loop, the optimisers and the storage, and knows no method.

Read `round` first. The encoder runs on gathered windows; observations stay indices until it needs them.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import reduce
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Generic

import torch
from torch import nn

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.layout import Tensors
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.learning.experience.conditioned import symbol_market
from pacesetter.learning.experience.market import FleetStep
from pacesetter.learning.experience.recording import RecordedStep
from pacesetter.learning.experience.replay_log import ReplayLog
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.extras.extra import Surroundings, make_extras
from pacesetter.learning.fleet.clock import Clock
from pacesetter.learning.fleet.encoding import make_encoding
from pacesetter.learning.fleet.graphs import RecordedRound, check_recordable
from pacesetter.learning.fleet.method import (
    AgentsT_co,
    FleetConfig,
    Losses,
    MarketOfSymbols,
    MarketT_co,
    Method,
    SteppedMarket,
)
from pacesetter.learning.fleet.optimiser import StackedAdam, clip_each
from pacesetter.learning.fleet.resume import Owner, capture, restore
from pacesetter.learning.fleet.storage import load_fleet
from pacesetter.learning.learner import Between, StepRecord, Watcher
from pacesetter.learning.state import read_header, read_state, tensors_hash, write_state
from pacesetter.registry import configure

__all__ = ["FleetTrainer", "Trainer"]

MOST_COUNTED = 4_096  # observations that the normaliser counts of one round
EPSILON = 1e-5  # Adam's, as is the custom in PPO


class Trainer(ABC, Generic[AgentsT_co, MarketT_co]):
    """Agents that learn by a method in a market of their symbols, or of some of them; a `Learner`.

    It moves the fleet, and what the method and its extras own, to the market's device. Steps are those of each symbol.
    """

    declared: ClassVar[tuple[str, ...]] = ("encoder_optimiser", "head_optimiser", "market", "observation", "steps")

    method: Method[AgentsT_co, MarketT_co]
    fleet: AgentsT_co
    market: MarketT_co
    config: FleetConfig

    def __init__(self, method: Method[AgentsT_co, MarketT_co]) -> None:
        self.method, self.fleet, self.market, self.config = method, method.fleet, method.market, method.config
        # After the networks were made: experience depends on the seed, not on how many numbers the weights took.
        torch.manual_seed(self.config.seed)
        self.device, self.clock, self.steps = self.market.device, Clock(self.market.device), 0
        market: object = self.market
        self.stepped = market if isinstance(market, SteppedMarket) else None
        self.fleet.to(self.device)
        self.fleet.has_state_value = method.has_state_value
        method.own.to(self.device)
        self.symbols = len(self.market.symbols)
        self.present = torch.tensor(self.fleet.places(self.market.symbols), device=self.device)
        segments = method.segment_bars, method.batch_rows
        self.encoding = make_encoding(self.fleet, self.market, self.config, *segments)
        self.extras = make_extras(self.config.extras, self._extra_context()) if self.config.extras else {}
        for extra in self.extras.values():
            extra.own.to(self.device)
        self._make_optimisers()
        self.recorded, self.first_step = self._record_round(), 0
        self.observation: dict[str, torch.Tensor] = self.market.reset()
        self.records: list[FleetStep] = []
        self.received: StepRecord | None = None
        self.actions: list[torch.Tensor] = []
        self._statistics: dict[str, torch.Tensor] = {}
        self.replay_log: ReplayLog | None = None  # of a run that keeps every episode, see `train.log_episodes`
        # Counted at once: `learn` commits before the first round, which would otherwise see raw numbers.
        self.count(self.observation)

    def _extra_context(self) -> Surroundings:
        """What extras are made for."""
        market, config = self.market, self.config
        return Surroundings(
            self.fleet.config.width,
            self.fleet.actions,
            symbols=len(self.fleet.symbols),
            env_count=market.env_count,
            gamma=config.gamma,
            batch=market.batch,
            complete=market.tables,
            device=self.device,
            places=self.present,
        )

    def _make_optimisers(self) -> None:
        rate = self.config.encoder_learning_rate
        # A CUDA graph cannot wait for the host: Adam must keep its count of steps on the device.
        graphs = self.config.graphs
        self.encoder_optimiser = torch.optim.Adam(
            self.fleet.encoder.parameters(), rate, eps=EPSILON, capturable=graphs, fused=graphs or None
        )
        trained_here = [extra.own for extra in self.extras.values() if extra.optimiser is None]
        owned = [parameter for own in (self.method.own, *trained_here) for parameter in own.parameters()]
        self.head_parameters = [*self._fleet_heads(), *(one for one in owned if one.requires_grad)]
        self.head_optimiser = StackedAdam(self.head_parameters, self.config.learning_rate, eps=EPSILON)

    def _record_round(self) -> RecordedRound | None:
        if not self.config.graphs:
            return None
        check_recordable(self.method, self.device)
        return RecordedRound(self)

    def _fleet_heads(self) -> list[nn.Parameter]:
        """The stacked parameters of the fleet that learn: a critic only where the method has a state value."""
        kept = ("encoder.",) if self.method.has_state_value else ("encoder.", "critic.")
        return [parameter for name, parameter in self.fleet.named_parameters() if not name.startswith(kept)]

    # ---- learning -------------------------------------------------------------------------------------------------

    def learn(self, steps: int, watcher: Watcher | None = None) -> None:
        """Train until each symbol has made `steps` environment steps."""
        watcher = watcher or Between()
        try:
            while self.steps < steps:
                watcher.between_rounds()
                if self.is_encoder_learning:
                    # Between rounds alone: within a round, acting and learning must see the same scaling, or ratios are
                    # off.
                    self.fleet.encoder.normaliser.commit()
                self.round(watcher)
        finally:
            self.method.release()

    def round(self, watcher: Watcher) -> None:
        """Collect experience, learn from it, and count the steps."""
        recorded = self.recorded if self.steps > self.first_step else None  # the first round sets everything up
        with self.clock("rollout"):
            self.encoding.begin_round()
            experience = self.method.collect(self) if recorded is None else recorded.collect()
        # Before the update: a NaN reward has to stop the run before it reaches the weights.
        self._report(watcher)
        with self.clock("update"):
            logged = self._learn_from(experience) if recorded is None else recorded.learn(experience)
        if logged:
            metrics = {name: torch.stack([losses.metrics[name] for losses in logged]) for name in logged[0].metrics}
            self._statistics = self.method.describe(experience, metrics)
            self._collect_figures_of_extras()
        # After the update, and in force from the next round on.
        self.count(self.method.round_observations(experience, self))
        self.steps += self.round_steps

    def _learn_from(self, experience: object) -> list[Losses]:
        batches = self.method.batches(experience, self)
        return [self.update(batch, self.features(batch.observation)) for batch in batches]

    def _collect_figures_of_extras(self) -> None:
        """Let extras hear what the round came to, and add what they say of it, (symbol,) each."""
        for extra in self.extras.values():
            extra.round_ended(self._statistics, self.steps + self.round_steps)
            for name, value in extra.figures_to_log().items():
                self._statistics[name] = value.expand(self.symbols)

    def update(self, batch: Transitions, features: torch.Tensor) -> Losses:
        """One step of the heads and the encoder on a batch."""
        losses = self.method.losses(batch, features, self)
        terms = dict(losses.terms)
        for extra in self.extras.values():
            terms |= extra.losses(batch, features)
        going = ~self.fleet.frozen[self.present] if losses.going is None else losses.going
        self.descend(reduce(add, terms.values()), going)
        self.method.after_step()
        return losses

    def descend(self, losses: torch.Tensor, going: torch.Tensor) -> None:
        """One step down the `losses` (symbol,) of the market's symbols that are still `going`.

        Heads get the gradient that their agent would get alone, the encoder the mean over the symbols.
        """
        self.encoder_optimiser.zero_grad()
        self.head_optimiser.zero_grad()
        # torch.where, not a product: 0 · NaN of a stopped symbol would reach the shared encoder.
        torch.where(going, losses, 0.0).sum().backward()  # type: ignore[no-untyped-call]
        shared = [parameter for parameter in self.fleet.encoder.parameters() if parameter.grad is not None]
        for parameter in shared:
            # The sum over symbols gives each head its own gradient; the encoder, which all share, takes the mean of
            # theirs.
            assert parameter.grad is not None
            parameter.grad.div_(going.sum().clamp(min=1))
        torch.nn.utils.clip_grad_norm_(shared, self.config.max_grad_norm)
        clip_each(self.head_parameters, self.config.max_grad_norm)
        self.encoder_optimiser.step()
        # By agent of the fleet: absent symbols have no place in `going` and stay as they are, moments included.
        moving = torch.zeros_like(self.fleet.frozen)
        moving[self.present] = going
        self.head_optimiser.step(moving & ~self.fleet.frozen)

    # ---- what a method asks for -----------------------------------------------------------------------------------

    def step_environments(self, actions: torch.Tensor, log_probs: torch.Tensor | None = None) -> FleetStep:
        """Step all environments; what they then show becomes `observation`. A replay log hears of it."""
        assert self.stepped is not None  # a method of stored rows asks for no step
        with self.clock("environment"):
            step = self.stepped.step(actions)
        if self.replay_log is not None:
            if log_probs is None:
                raise ConfigError("train.log_episodes needs log-probabilities, which this agent does not give")
            self.replay_log.add(RecordedStep(self.observation, actions, log_probs, step))
        self.records.append(step)
        self.actions.append(actions)
        self.observation = step.observation
        return step

    def begin_episodes(self) -> None:
        """Begin an episode in every environment; what they show becomes `observation`."""
        with self.clock("environment"):
            self.observation = self.market.reset()

    def receive(self, record: StepRecord, observation: Tensors) -> None:
        """Steps (step, env) that were made elsewhere, to be reported; what was shown last becomes `observation`."""
        self.received, self.observation = record, dict(observation)

    def features(self, observation: Tensors) -> torch.Tensor:
        """(env, width) float32 features of compact observations."""
        return self.encoding({name: entry for name, entry in observation.items() if name != ACTION_MASK})

    @torch.no_grad()
    def count(self, observation: Tensors) -> None:
        """Let the normaliser count some of these observations (row, …); a frozen encoder keeps what it has."""
        if self.is_encoder_learning:
            rows = len(next(iter(observation.values())))
            # Spread evenly over the round, which needs no random number: counting must not move the stream of the
            # method.
            chosen = torch.linspace(0, rows - 1, min(rows, MOST_COUNTED), device=self.device).long()
            some = {name: entry[chosen] for name, entry in observation.items() if name != ACTION_MASK}
            self.fleet.encoder.normaliser.observe(self.market.tables(some))

    def _report(self, watcher: Watcher) -> None:
        """Tell the watcher of a round's steps at once, before they are learned from: a GPU waits once a round."""
        if self.received is not None:
            watcher.step(self.received)
            self.received = None
        if not self.records:  # a method that learns from stored rows steps no environment
            return
        rewards, done = (
            torch.stack(parts)
            for parts in zip(*((step.rewards, step.terminated | step.truncated) for step in self.records), strict=True)
        )
        watcher.step(StepRecord(torch.stack(self.actions), rewards, done, {}))
        self.records, self.actions = [], []

    # ---- looking and changing -------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Environment steps of each symbol so far."""
        return self.steps

    @property
    def round_steps(self) -> int:
        """Environment steps of each symbol in a round; learning ends with a whole one."""
        return self.method.round_steps

    @property
    def agent(self) -> AgentsT_co:
        """The fleet as it is now."""
        return self.fleet

    @property
    def seconds(self) -> dict[str, float]:
        """Time spent in rollout, environment and update; waits for the device."""
        return self.clock.seconds()

    @property
    def is_encoder_learning(self) -> bool:
        """False where the encoder is frozen, its normaliser included."""
        return bool(self.fleet.encoder.start.requires_grad)

    def statistics(self) -> dict[str, torch.Tensor]:
        """Figures of the latest round, as its method describes it; nothing before the first update."""
        return dict(self._statistics)

    def losses(self) -> dict[str, float]:
        """Means over the symbols of the losses of the latest round; nothing before the first."""
        return {name: float(values.mean()) for name, values in self._statistics.items() if name.endswith("loss")}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of what the encoder takes."""
        return {name: tuple(shape) for name, shape in self.market.shapes.items()}

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Name and tensor of everything that acts."""
        return self.fleet.named_parameters()

    @property
    def modules(self) -> dict[str, nn.Module]:
        """What acts, by the name it is stored under."""
        fleet: object = self.fleet
        assert isinstance(fleet, nn.Module)
        return {"fleet": fleet}

    def network(self) -> nn.Module:
        """All modules that act."""
        return nn.ModuleList(self.modules.values())

    def weights_hash(self) -> str:
        """SHA-256 over names and bytes of the weights that act."""
        acting = list(self.modules.values())
        return tensors_hash((acting[0] if len(acting) == 1 else nn.ModuleList(acting)).state_dict())

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates and coefficients of now."""
        groups = (*self.head_optimiser.param_groups, *self.encoder_optimiser.param_groups)
        options = vars(self.method.config)
        return (*(group["lr"] for group in groups), *(options[name] for name in self.method.coefficients))

    def set(self, name: str, value: float) -> None:
        """Change a learning rate or a coefficient of the method while learning; refuses another name."""
        if name in self.method.coefficients:
            self.method.set_option(name, value)
            return
        rates = {"learning_rate": self.head_optimiser, "encoder_learning_rate": self.encoder_optimiser}
        if name not in rates:
            known = did_you_mean(name, (*rates, *self.method.coefficients))
            raise ConfigError(f"train.schedules names '{name}', which a fleet does not schedule{known}")
        for group in rates[name].param_groups:
            group["lr"] = value

    @abstractmethod
    def freeze(self, parts: tuple[str, ...]) -> None: ...

    @abstractmethod
    def take_weights(self, folder: str | Path) -> int: ...

    # ---- storing --------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, object]:
        """All that decides how learning continues, between rounds."""
        return {
            **{name: module.state_dict() for name, module in self.modules.items()},
            **capture(self, self.declared),
            "method": {"own": self.method.own.state_dict()} | capture(self.method, self.method.declared),
            "extras": {
                name: {"own": extra.own.state_dict()} | capture(extra, extra.declared)
                for name, extra in self.extras.items()
            },
            "random": torch.get_rng_state(),
            "device_random": torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else None,
        }

    def load_state_dict(self, stored: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` gave, bit for bit on the same kind of device."""
        for name, module in self.modules.items():
            module.load_state_dict(stored[name])
        restore(self, self.declared, stored, self.device)
        owners: dict[str, Owner] = {"method": self.method, **self.extras}
        parts = {"method": stored["method"]} | dict(stored["extras"])
        for name, owner in owners.items():
            owner.own.load_state_dict(parts[name]["own"])
            restore(owner, owner.declared, parts[name], self.device)
        self.recorded, self.first_step = self._record_round(), self.steps  # optimisers have other memory now
        # Last, so that nothing restored before it can move the stream.
        torch.set_rng_state(stored["random"])
        if stored["device_random"] is not None:
            torch.cuda.set_rng_state(stored["device_random"], self.device)

    def save(
        self, folder: str | Path, header: Mapping[str, object] | None = None, more: Mapping[str, object] | None = None
    ) -> Path:
        """Store all of it, and `more` beside it, without pickle; the header says what it is of."""
        described = {"learner": self.describe()} | dict(header or {})
        return write_state(folder, described, self.state_dict() | {"run": dict(more or {})})

    def load(self, folder: str | Path) -> dict[str, Any]:
        """Continue from what `save` stored, and give its `more`; refuses another method, options or symbols."""
        own = self.describe()
        stored = self.complete(dict(read_header(folder)["learner"]))
        for name, value in own.items():
            if stored.get(name) != value:
                raise RunError(f"{folder} was stored with {name}={stored.get(name)}, not {value}; resume with its own")
        state = read_state(folder)
        self.load_state_dict(state)
        return dict(state["run"])

    def complete(self, stored: dict[str, Any]) -> dict[str, object]:
        """What a checkpoint's header says, with the defaults of options that are newer than it."""
        if stored.get("algorithm") != type(self.config).__name__:
            return stored
        kept = configure(type(self.config), stored["config"], "the checkpoint's agent")
        return stored | {"config": dataclasses.asdict(kept)}

    def describe(self) -> dict[str, object]:
        """Which method, with which options, for which symbols."""
        config = dataclasses.asdict(self.config)
        return {"algorithm": type(self.config).__name__, "config": config, "symbols": list(self.fleet.symbols)}


class FleetTrainer(Trainer[Fleet, MarketOfSymbols]):
    """The trainer of a fleet: it can begin with weights of others, and let some agents learn again."""

    def freeze(self, parts: tuple[str, ...]) -> None:
        """Keep the encoder as it is; a fleet freezes no other part."""
        if set(parts) - {"encoder"}:
            raise ConfigError(f"train.freeze={list(parts)}: only a fleet's encoder can be frozen; give [encoder]")
        self.fleet.freeze_encoder("encoder" in parts)

    def take_weights(self, folder: str | Path) -> int:
        """Begin with the encoder of a stored fleet or direction classifier, and the heads of symbols that both know.

        Gives how many tensors were taken; refuses an encoder of another size, and what is neither.
        """
        if (Path(folder) / "state.json").is_file():
            return self._take_classifier(folder)
        stored, fleet = load_fleet(folder), self.fleet
        fleet.use_encoder(stored.encoder)
        common = [symbol for symbol in fleet.symbols if symbol in stored.symbols]
        for symbol, row in zip(common, fleet.places(common), strict=True):
            agent = stored.take(symbol)
            if stored.actions == fleet.actions and stored.own == fleet.own:
                fleet.actor.write(row, agent.actor.layers)
            else:  # another kind of action: the hidden layer is kept, what it leads to is new
                fleet.actor.write_first(row, agent.actor.layers)
            if stored.own == fleet.own:
                fleet.critic.write(row, agent.critic.layers)
            else:
                fleet.critic.write_first(row, agent.critic.layers)
        return len(fleet.state_dict() if common else fleet.encoder.state_dict())

    def _take_classifier(self, folder: str | Path) -> int:
        # these know Stable-Baselines3, which a fleet does without
        from pacesetter.methods.supervised.forecasts import KIND, Forecasts
        from pacesetter.methods.supervised.transfer import fit_encoder

        if read_header(folder).get("kind") != KIND:
            raise RunError(
                f"train.init_from: {folder} holds neither a fleet nor a direction classifier; use a run of "
                "task=fleet, or a folder of `pacesetter baseline sl`"
            )
        return fit_encoder(Forecasts.load(folder).model, self.fleet.encoder)

    @property
    def encoder_extras(self) -> tuple[str, ...]:
        """Names of the extras that teach the encoder alone."""
        return tuple(name for name, extra in self.extras.items() if extra.teaches_encoder_alone)

    def retrainer(self, symbols: list[str], seed: int) -> FleetTrainer:
        """A new trainer of the same fleet by the same method, for some of its symbols and with another seed.

        Extras that teach the encoder alone are left out: some of the symbols may not even have what they compare.
        """
        extras = {name: options for name, options in self.config.extras.items() if name not in self.encoder_extras}
        config = dataclasses.replace(self.config, seed=seed, extras=extras)
        kind: Any = type(self.method)
        trainer = FleetTrainer(kind(self.fleet, self.market.select(symbols), config))
        if self.replay_log is not None:
            trainer.replay_log = self.replay_log.of(symbol_market(trainer.market))
        return trainer
