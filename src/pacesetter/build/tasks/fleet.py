"""`task=fleet`: each symbol by an agent of its own, all of them trained together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from pacesetter.build.environments import (
    FeatureSplit,
    Parts,
    build_supervised,
    build_table,
    feature_split,
    fitted_until,
    split_panel,
)
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.build.plan import Plan, has_prior
from pacesetter.build.prior import beside_prior, fit_prior, market_rows, refuse_folds, sample_observations
from pacesetter.build.tasks.task import Stored, Task
from pacesetter.build.tasks.trading import MarketCopies, market_copies
from pacesetter.build.trading import FleetTrading
from pacesetter.data.splits import Fold
from pacesetter.envs.batch.bank import PRIOR, Bank
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import FeatureTable
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from pacesetter.agents.fleet import Fleet
    from pacesetter.envs.task_options import TaskOptions
    from pacesetter.learning.experience.conditioned import SymbolMarket
    from pacesetter.learning.experience.market import FleetMarket
    from pacesetter.learning.fleet.method import MarketOfSymbols
    from pacesetter.learning.learner import Learner
    from pacesetter.market.parameters import MarketParameters
    from pacesetter.policies.modules import Exported, ServedAgent
    from pacesetter.policies.policy import Policy
    from pacesetter.policies.spec import PolicySpec, Trades

__all__ = [
    "FleetTask",
    "episode_options",
    "known_table",
]

FEW_BARS = 1000  # in which an episode mostly has room


class FleetTask(Task):
    """Markets of its own kind in place of vector environments: many environments a symbol, one to be validated in."""

    name = "fleet"
    learns = "an agent for each symbol"
    learned_as = "fleet"
    config: type[TaskOptions] = FleetTrading
    observe = "pacesetter.jobs.run.fleet:observe"
    reads_table = True

    def check_bars(self, config: Plan, panel: Panel, bars: int) -> None:
        """Refuses bars without room for an episode behind the longest window."""
        for some in (min(FEW_BARS, bars), bars):  # a few will do unless a symbol comes late
            try:
                build_market(config, panel.rows(0, some), 1, episode_bars=config.trading.episode_bars)
                return
            except DataError:
                if some == bars:
                    raise

    def parts(self, config: Plan, panel: Panel) -> Parts[MarketOfSymbols, object]:
        split, prior = feature_split(config, panel), None
        if has_prior(config):
            prior, ends = fit_prior(config, split)
            split = replace(split, prior=ends)
        episodes = episode_options(config) | {"continued": config.trading.continued}
        validation = build_market(
            config, split.known, 1, **split.features(split.known), starts="fixed", first_bar=split.start
        )
        # Copies are for training alone: validation plays the bars as they are.
        copies = self.copies(config, split)
        learned, features = copies.append_copies(split.learned, split.features(split.learned))
        train = build_market(config, learned, config.train.envs, **features, **episodes)
        # Before the entries of conditions are added around it: a course steers the market itself.
        _follow(train, config.trading.curriculum)
        learned_in, validated_in = self.with_entries(train, validation)
        return Parts(learned_in, validated_in, prior)

    def fold_parts(self, config: Plan, panel: Panel, fold: Fold) -> Parts[MarketOfSymbols, object]:
        """Refuses a fold that has a test between its training bars."""
        refuse_folds(config)
        first, last = int(fold.train[0]), int(fold.train[-1])
        if len(fold.train) <= last - first:
            raise ConfigError("a fleet is trained on one unbroken period; use --folds without --combinatorial")
        # From bar 0 on: bars before the fold are history for features, and start no episode.
        known = panel.rows(0, last + 1)
        market = build_market(config, known, config.train.envs, first_bar=first, **episode_options(config))
        (shown,) = self.with_entries(market)
        return Parts(shown, shown)

    def copies(self, config: Plan, split: FeatureSplit) -> MarketCopies:
        """Other markets of the same symbols that are learned from beside the training bars; mostly none."""
        return market_copies(config, split)

    def recording_market(self, config: Plan, panel: Panel, envs: int, episode_bars: int | None) -> FleetMarket:
        # Episodes of one length: an evaluation weights them equally.
        bars = config.trading.episode_bars if episode_bars is None else episode_bars
        if bars is None:
            raise ConfigError("task.episode_bars=null has no end; give --bars")
        split = feature_split(config, panel)
        return build_market(config, split.learned, envs, **split.features(split.learned), episode_bars=bars)

    def recorded_facts(self, config: Plan, panel: Panel, market: object) -> dict[str, object]:
        from pacesetter.learning.experience.conditioned import symbol_market
        from pacesetter.methods.offline.manifest import content_hash

        market = symbol_market(market)
        task, batch = config.trading, market.batch
        return {
            # Of the training bars alone: new bars in the test set do not make a dataset stale.
            "data": split_panel(config, panel).learned.fingerprint,
            "symbols": list(market.symbols),
            "names": {entry: list(names) for entry, names in batch.bank.names.items()},
            "window_bars": batch.window_bars,
            "action": task.action,
            "reward": content_hash(asdict(task.reward)),
            "market": content_hash(asdict(task.market)),
            "components": list(batch.components),
            "episode_bars": batch.episode_bars,
            "bars_per_year": batch.market.bars_per_year,
            "hold_zone": batch.market.orders.hold_zone,
        }

    def policy(self, stored: Stored) -> Policy:
        policy = self._policy(best_fleet(stored.folder), stored.config, fitted_until(stored.config, stored.panel))
        if has_prior(stored.config):
            from pacesetter.methods.prior.policy import PriorAdvice
            from pacesetter.policies.fleet import FleetTargets

            assert isinstance(policy, FleetTargets)  # agents that set targets trade by them
            return replace(policy, advice=PriorAdvice(policy.advice, beside_prior(stored)))
        return self.ask_policy(policy, stored.config, stored.folder)

    def learned_policy(self, learner: Learner, config: Plan, until: pd.Timestamp) -> Policy:
        from pacesetter.learning.fleet.trainer import FleetTrainer

        assert isinstance(learner, FleetTrainer)
        return self.ask_policy(self._policy(learner.fleet, config, until), config)

    def _policy(self, fleet: Fleet, config: Plan, until: pd.Timestamp) -> Policy:
        from pacesetter.policies.fleet import fleet_policy

        return fleet_policy(fleet, config.task_as(FleetTrading), until)

    def make_served(
        self, fleet: Fleet, names: Mapping[str, Sequence[str]], targets_in: MarketParameters | None, trades: Trades
    ) -> tuple[ServedAgent, PolicySpec]:
        """The fleet as a module with its spec."""
        from pacesetter.policies.modules import serve_agent

        return serve_agent(fleet, names, targets_in, trades)

    def observe_as(self, market: SymbolMarket, fleet: Fleet) -> SymbolMarket:
        """The market whose observations an exported graph is compared on."""
        return market

    def export(self, stored: Stored, count: int) -> Exported:
        import torch

        from pacesetter.learning.experience.market import FleetMarket
        from pacesetter.learning.fleet.storage import load_fleet
        from pacesetter.market.orders import Discrete
        from pacesetter.policies.curiosity import load_curiosity, with_curiosity
        from pacesetter.policies.modules import Exported
        from pacesetter.policies.spec import EXPECTED

        task, table = stored.config.task_as(FleetTrading), known_table(stored)
        odds = build_supervised(stored.config, stored.panel)
        bank = Bank.from_panels(stored.panel, table, odds, symbols=task.symbols or None)
        targets_in = task.market if task.action == "target" else None
        names = self.entry_names(bank.names)
        fleet = load_fleet(stored.checkpoint)
        if has_prior(stored.config):
            from pacesetter.methods.prior.policy import serve_prior
            from pacesetter.policies.modules import serve_agent

            # Its actions are residuals: only with the prior do they become targets.
            inner, spec = serve_agent(fleet, {**names, PRIOR: ("lowest", "highest")}, None, task.trades)
            served_prior = serve_prior(inner, spec, beside_prior(stored), names, task.trades)
            return Exported(*served_prior, fleet.symbols, market_rows(bank, task, count))
        module, spec = self.make_served(fleet, names, targets_in, task.trades)
        options: dict[str, Any] = {"action": task.action, "window_bars": task.window_bars, "market": task.market}
        (market,) = self.with_entries(FleetMarket(bank, 1, reward=task.reward, **options))
        market = self.observe_as(market, fleet)

        def draw(generator: torch.Generator) -> torch.Tensor:
            drawn = torch.rand(len(spec.symbols), generator=generator)
            # Random actions reach states that the trained policy avoids, and parity must hold there too.
            return 2 * drawn[:, None] - 1 if market.actions is None else (drawn * len(Discrete)).long()

        spec, look = self.with_defaults(spec, stored.folder), market.tables
        curiosity = load_curiosity(stored.checkpoint, fleet.config.width, fleet.actions)
        # A graph that takes one bar at a time keeps its own memory, beside which there is no place for another.
        if curiosity is None or spec.memory:
            return Exported(module, spec, spec.symbols, sample_observations(market, look, draw, count))
        served, spec = with_curiosity(module, spec, curiosity)
        # Any fixed numbers will do: parity is of the graph, not of what was really expected.
        expected = torch.linspace(-1, 1, spec.inputs[EXPECTED][0])
        return Exported(
            served,
            spec,
            spec.symbols,
            sample_observations(
                market, lambda rows: look(rows) | {EXPECTED: expected.repeat(len(rows["position"]), 1)}, draw, count
            ),
        )


TASK = FleetTask()


def known_table(stored: Stored) -> FeatureTable:
    """The features of a run's panel, computed unless they are known already."""
    return build_table(stored.config, stored.panel) if stored.table is None else stored.table


def _follow(market: FleetMarket, curriculum: str) -> None:
    """Let the market's episodes follow the curriculum."""
    from functools import partial

    from pacesetter.envs.curriculum import FIVE_STAGES, Course, adaptive_stages
    from pacesetter.envs.programme import copies_of, make_course

    if curriculum == "none":
        return
    if copies_of(curriculum):
        market.follow(partial(make_course, curriculum))
    else:
        market.follow(partial(Course, stages=FIVE_STAGES if curriculum == "five_stages" else adaptive_stages()))


def episode_options(config: Plan) -> dict[str, Any]:
    """Options of the market that a fleet's episodes are played in."""
    task = config.trading
    limit = {} if task.repetition_limit is None else {"repetition_limit": task.repetition_limit}
    return {"episode_bars": task.episode_bars, "starts": task.starts} | limit
