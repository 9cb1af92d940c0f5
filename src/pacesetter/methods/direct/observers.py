"""What a run does while a direct policy learns: its losses and shape, and its account on the validation set."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from pacesetter.build.environments import Stretch
from pacesetter.evaluation.backtest.backtest import Backtest, backtest
from pacesetter.evaluation.fleet.account_measures import allocation_gates, measures
from pacesetter.evaluation.statistics.metrics import ended_growth
from pacesetter.jobs.run.callbacks import LiveFigures, Session, Validator
from pacesetter.jobs.run.tracking import resources
from pacesetter.leadlag.estimators.relations import RELATIONS
from pacesetter.methods.direct.learner import DirectLearner, load_direct
from pacesetter.policies.agent import AgentPolicy

__all__ = ["DirectMeter", "DirectValidator", "observe"]


class DirectMeter(LiveFigures[DirectLearner]):
    """The loss of the latest round, the penalty that was chosen, and the shape of the policy, to every tracker."""

    def __init__(self, session: Session[DirectLearner]) -> None:
        super().__init__(session)
        self.learner = session.learner
        self.started, self.first = time.perf_counter(), self.learner.step
        self.shown: dict[str, float] = {}

    def between_rounds(self) -> None:
        if self.learner.step and self.is_due(self.session.config.train.log_every):
            self.shown = self.learner.statistics()
            rate = (self.learner.step - self.first) / (time.perf_counter() - self.started)
            self.session.log(**self.shown, steps_per_second=rate, resources=resources())

    def figures(self) -> list[str]:
        """What the progress line says."""
        if not self.shown:
            return []
        used, shown = f"{self.shown.get('inputs_used', 0):.0f} inputs used", self.shown
        return [used, f"loss {shown['direct_loss']:+.4f}", f"gain {shown['gain']:.2g}", f"price {shown['price']:.2g}"]


class DirectValidator(Validator[DirectLearner]):
    """Plays the account through the validation set by the market kernel; its score is the annualised Sharpe ratio.

    Of the objective `cushion` it is the growth of an account that ends at its drawdown limit, of `mean_variance` that
    utility a bar.
    """

    played: Backtest

    def __init__(self, session: Session[DirectLearner]) -> None:
        super().__init__(session)
        self.learner = session.learner
        stretch = session.parts.validation
        assert isinstance(stretch, Stretch)
        self.stretch = stretch

    def keep(self, folder: Path, facts: Mapping[str, object]) -> None:
        super().keep(folder, facts)
        self.played.save(self.session.run.folder)  # what `pacesetter inspect` replays

    def _play(self) -> dict[str, object]:
        # Through the market kernel, not the differentiable ledger that it learned in: the score is what a backtest
        # gives.
        policy = AgentPolicy(self.learner.agent, "direct", "target", is_whole=True)
        self.played = backtest(policy, **self.stretch._asdict())
        figures = measures(self.played)
        self.gates["deterministic"] = allocation_gates(figures)
        config = self.learner.config
        if config.objective == "cushion":
            growth = ended_growth(self.played.returns, config.drawdown_limit)
            return {"score": growth, "deterministic": figures | {"ended_growth": growth}}
        if config.objective == "mean_variance":
            returns = self.played.returns
            utility = float(returns.mean() - 0.5 * config.risk_aversion * returns.var())
            return {"score": utility, "deterministic": figures | {"utility": utility}}
        return {"score": figures["sharpe"], "deterministic": figures}

    def finish(self) -> None:
        """Leave a policy to act even where none was validated."""
        if not self.state["scores"]:
            self.learner.save(self.session.run.path("checkpoints/best"), self.session.header)
        self._store_relations()

    def _store_relations(self) -> None:
        """Write what the best policy uses of each symbol's past, for `lag.method=policy`."""
        policy = load_direct(Path(self.session.run.path("checkpoints/best")))
        count, symbols = policy.lags * len(policy.symbols), len(policy.symbols)
        # Rows of the weights are lag by lag, symbol by symbol; behind them stand the market's own lags and the
        # constant.
        weights = policy.weights.detach().numpy()[:count].reshape(policy.lags, symbols, symbols)
        own = {"symbols": list(policy.symbols), "weights": weights.tolist()}
        # the validation set chose the policy, so that it is in-sample too
        self.session.run.write_json(RELATIONS, own | {"seen_until": str(self.stretch.panel.index[-1])})


def observe(session: Session[DirectLearner]) -> tuple[DirectMeter, DirectValidator]:
    """What meters and validates one account of all symbols."""
    return DirectMeter(session), DirectValidator(session)
