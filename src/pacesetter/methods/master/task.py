"""`task=master`: one account shared among all symbols, advised by the agents of a fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacesetter.build.environments import Parts, Stretch, feature_split, fitted_until
from pacesetter.build.plan import Plan
from pacesetter.build.prior import beside_prior, sample_observations
from pacesetter.build.tasks.fleet import known_table
from pacesetter.build.tasks.task import NO_WINDOWS, Stored, Task
from pacesetter.envs.batch.bank import PRIOR, Bank
from pacesetter.methods.master.build import best_master, build_master_parts, with_fleet
from pacesetter.methods.master.options import MasterTrading
from pacesetter.panel import Panel

if TYPE_CHECKING:
    import torch

    from pacesetter.methods.master.market import MasterMarket
    from pacesetter.methods.master.policy import MasterPolicy
    from pacesetter.policies.fleet import FleetAdvice
    from pacesetter.policies.modules import Exported

__all__ = ["MasterTask"]

PORTFOLIOS = 8  # side by side, to be observed for an export


class MasterTask(Task):
    """A market whose observations are what the agents of a fleet say of it."""

    name = "master"
    learns = "how to share one account among the proposals of a fleet"
    learned_as = "master"
    config = MasterTrading
    observe = "pacesetter.methods.master.observers:observe"
    page = "pacesetter.methods.master.page:run_sections"
    allocates = True
    refusals = NO_WINDOWS | {
        "folds": "a master is retrained only with its fleet; give --folds the fleet's run",
        "job": "the pipeline trains traders; task=master is for `pacesetter train`",
    }
    inherited = r"\+?(data|features|train\.(shares|purge_bars|folds?)|task\.(window_bars|symbols|market))\b"

    def complete(self, config: Plan) -> Plan:
        return with_fleet(config)

    def parts(self, config: Plan, panel: Panel) -> Parts[MasterMarket, Stretch]:
        return build_master_parts(config, feature_split(config, panel))

    def policy(self, stored: Stored) -> MasterPolicy:
        from pacesetter.methods.master.policy import MasterPolicy
        from pacesetter.policies.advice import Advice

        master, fleet = best_master(stored.folder)
        advice: FleetAdvice = Advice(fleet)
        if fleet.around is not None:
            from pacesetter.methods.prior.policy import PriorAdvice

            advice = PriorAdvice(advice, beside_prior(stored))
        return MasterPolicy(master, advice, fitted_until(stored.config, stored.panel))

    def export(self, stored: Stored, count: int) -> Exported:
        import torch

        from pacesetter.methods.master.learner import load_master
        from pacesetter.methods.master.market import MasterMarket
        from pacesetter.methods.master.policy import serve_master
        from pacesetter.policies.modules import Exported

        task, table = stored.config.task_as(MasterTrading), known_table(stored)
        symbols = task.symbols or stored.panel.symbols
        bank = Bank.from_panels(stored.panel, table, symbols=symbols, is_whole=True)
        master, fleet = load_master(stored.checkpoint)
        names = {**bank.names, PRIOR: ("lowest", "highest")}
        module, spec = serve_master(master, fleet, symbols, names)
        options: dict[str, Any] = {"window_bars": task.window_bars, "market": task.market}
        # Joint: observations stay places, so that the exported graph computes the advice itself.
        market = MasterMarket(bank, PORTFOLIOS, module.advisers, is_joint=True, **options)

        def draw(generator: torch.Generator) -> torch.Tensor:
            return torch.randn(PORTFOLIOS, len(symbols) + 1, generator=generator)

        if fleet.around is not None:
            from pacesetter.methods.prior.policy import serve_prior_master

            served = serve_prior_master(module, spec, beside_prior(stored), bank.names)
            return Exported(*served, symbols, sample_observations(market, market.lookup, draw, count))
        return Exported(module, spec, symbols, sample_observations(market, market.lookup, draw, count))


TASK = MasterTask()
