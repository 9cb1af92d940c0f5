"""`agent.prior`: what an agent of targets begins at, fitted to its training bars or taken from another run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pacesetter.arrays import Array
from pacesetter.build.environments import FeatureSplit, fitted_until
from pacesetter.build.plan import Plan, has_prior
from pacesetter.build.stored import check_unseen, stored_plan
from pacesetter.build.tasks.task import Stored, best_checkpoint
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, RunError, did_you_mean
from pacesetter.market.orders import target_range
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import torch

    from pacesetter.agents.layout import Tensors
    from pacesetter.build.trading import Trading
    from pacesetter.learning.experience.conditioned import SymbolMarket
    from pacesetter.market.parameters import MarketParameters
    from pacesetter.methods.direct.options import Direct
    from pacesetter.methods.master.market import MasterMarket
    from pacesetter.methods.prior.policy import BesidePrior, PriorAlone
    from pacesetter.methods.prior.prior import Prior

__all__ = [
    "PRIOR_FOLDER",
    "beside_prior",
    "check_prior",
    "fit_prior",
    "market_rows",
    "prior_alone",
    "refuse_folds",
    "sample_observations",
    "with_prior",
]


PRIOR_FOLDER = "prior"  # in the run's
PRIOR_TASKS = ("trading", "fleet")
KINDS = ("none", "direct", "expected")


def check_prior(config: Plan) -> None:
    """Refuse, before data is loaded, a prior that is not known or that the task cannot begin at."""
    asked = config.agent.targets.prior
    if not has_prior(config):
        return
    problem, task = str(config.task.problem), config.trading
    if problem not in PRIOR_TASKS:
        raise ConfigError(f"agent.prior={asked} is for task={' and task='.join(PRIOR_TASKS)}, not task={problem}")
    if task.action != "target":
        raise ConfigError(f"agent.prior={asked} is a position to hold; give task.action=target, not {task.action}")
    if task.curriculum != "none":
        raise ConfigError(f"agent.prior={asked} knows the bars as they are; give task.curriculum=none")
    if problem == "trading" and config.train.gates.is_traced:
        raise ConfigError(f"agent.prior={asked} is not traced gate by gate; leave out train.gates, or take task=fleet")
    if config.agent.options.get("hindsight") is not None:
        raise ConfigError(f"agent.prior={asked} has no goals to reach; leave out agent.hindsight")
    if asked not in KINDS:
        _direct_run(asked)


def _direct_run(folder: str) -> Plan:
    """The configuration of the run that a prior is taken from; refuses what is not a run of agent=direct."""
    if not (Path(folder) / "config.yaml").is_file():
        raise ConfigError(
            f"agent.prior={folder} is neither {', '.join(KINDS)} nor a run's folder{did_you_mean(folder, KINDS)}"
        )
    config = stored_plan(folder)
    if config.agent.algorithm != "direct":
        raise ConfigError(f"agent.prior={folder} is a run of agent={config.agent.algorithm}; give one of agent=direct")
    if (config.agent.network or "").startswith("team"):
        raise ConfigError(
            f"agent.prior={folder} is a team, which wants what its account allows; give a run with "
            "agent.network=linear_cross"
        )
    return config


def _direct_options(config: Plan) -> Direct:
    """The options of the direct policy that is the prior."""
    from pacesetter.methods.direct.options import Direct
    from pacesetter.registry import configure

    asked = config.agent.targets.prior
    own = {} if asked in KINDS else _direct_run(asked).agent.options
    return configure(Direct, own | {"seed": config.seed}, "agent.prior")


def with_prior(config: Plan) -> Plan:
    """The configuration with the bars that its prior reads, as it is stored with a run: the prior itself lies there."""
    if not has_prior(config):
        return config
    from pacesetter.methods.prior.prior import ExpectedPrior

    is_expected = config.agent.targets.prior == "expected"
    bars = ExpectedPrior.history_bars if is_expected else _direct_options(config).history_bars
    return replace(config, agent=config.agent.with_options(prior_bars=bars))


def fit_prior(config: Plan, split: FeatureSplit) -> tuple[Prior, Array]:
    """The prior and its ends (symbol, time, 2) on the bars that training may see: out-of-fold on those learned from.

    Refuses a run that was fitted on test bars, or that trades other symbols or within another cap.
    """
    from pacesetter.methods.prior.prior import ends_on_bank, fit_direct, fit_expected

    task, asked = config.trading, config.agent.targets.prior
    market = replace(task.market, bars_per_year=split.known.bars_per_year)

    def bank(panel: Panel) -> Bank:
        features = split.features(panel)
        symbols = task.symbols or panel.symbols
        return Bank.from_panels(panel, features["table"], features["supervised"], symbols=symbols, is_whole=True)

    learned = bank(split.learned)
    inside: Array | None = None
    if asked == "expected":
        prior = fit_expected(learned, market)
    elif asked == "direct":
        prior, inside = fit_direct(learned, market, _direct_options(config), config.job.direct_steps)
    else:
        check_unseen("agent.prior:", asked, split.known.index[-1])
        prior, inside = _of_run(config, learned, market)
    ends = ends_on_bank(prior, bank(split.known))
    if inside is not None:
        ends[:, : inside.shape[1]] = inside
    return prior, ends


def _of_run(config: Plan, learned: Bank, market: MarketParameters) -> tuple[Prior, Array]:
    """The prior of a stored run; on the bars learned from in the shape it has, by weights that did not see the bar."""
    from pacesetter.methods.direct.learner import DirectLearner, load_direct
    from pacesetter.methods.prior.prior import DirectPrior, out_of_fold

    folder = Path(config.agent.targets.prior)
    policy = load_direct(best_checkpoint(folder))
    if policy.symbols != learned.symbols[0]:
        raise ConfigError(f"agent.prior={folder} trades {', '.join(policy.symbols[:5])} …, not the symbols of this run")
    if (policy.lowest, policy.cap) != target_range(market):
        low, high = target_range(market)
        raise ConfigError(
            f"agent.prior={folder} holds {policy.lowest:g} to {policy.cap:g} of equity, and this run {low:g} to "
            f"{high:g}; train it with the same task.market.limits"
        )
    learner = DirectLearner(learned, market, _direct_options(config))
    learner.fit_weights()
    return DirectPrior(policy, market), out_of_fold(learner, policy, market)


def _stored_prior(folder: Path, config: Plan) -> Prior:
    """The prior that lies in a run's folder; refuses a run without it."""
    from pacesetter.methods.prior.prior import load_prior

    if not (folder / PRIOR_FOLDER).is_dir():
        raise RunError(f"{folder} has no prior, which its agent was trained with; the run is damaged, train it again")
    return load_prior(folder / PRIOR_FOLDER, config.trading.market)


def beside_prior(stored: Stored) -> BesidePrior:
    """The prior of a stored run, and how its agents' residuals are read beside it."""
    from pacesetter.methods.prior.policy import BesidePrior

    config = stored.config
    prior = _stored_prior(stored.folder, config)
    return BesidePrior(prior, config.learned_window_bars, config.agent.targets.prior_reach)


def prior_alone(stored: Stored) -> PriorAlone:
    """The prior of a stored run as a policy, without its agents."""
    from pacesetter.methods.prior.policy import PriorAlone

    config = stored.config
    return PriorAlone(beside_prior(stored), fitted_until(config, stored.panel), config.task.problem == "fleet")


def refuse_folds(config: Plan) -> None:
    """Refuse to retrain an agent with a prior on folds: the prior would be of other bars."""
    if has_prior(config):
        raise ConfigError(
            f"agent.prior={config.agent.targets.prior} is not refitted fold by fold; evaluate without --folds, or "
            "train with agent.prior=none"
        )


def market_rows(bank: Bank, task: Trading, count: int) -> Iterator[dict[str, Array]]:
    """Full observations of a market's symbols, a row of each, while random targets are held in it."""
    import torch

    from pacesetter.learning.experience.market import FleetMarket

    market = FleetMarket(bank, 1, action="target", window_bars=task.window_bars, market=task.market, reward=task.reward)

    def draw(generator: torch.Generator) -> torch.Tensor:
        return 2 * torch.rand(len(market.symbols), generator=generator)[:, None] - 1

    return sample_observations(market, market.tables, draw, count)


def sample_observations(
    market: SymbolMarket | MasterMarket,
    look: Callable[[Tensors], Mapping[str, torch.Tensor]],
    draw: Callable[[torch.Generator], torch.Tensor],
    count: int,
) -> Iterator[dict[str, Array]]:
    """What the market of a fleet or master shows by `look` while drawn actions are played in it."""
    import torch

    generator, observation, rows = torch.Generator().manual_seed(0), market.reset(), 0
    while rows < count:
        yield {name: entry.numpy() for name, entry in look(observation).items()}
        rows += len(observation["position"])
        observation = market.step(draw(generator)).observation
