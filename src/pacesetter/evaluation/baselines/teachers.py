"""Teachers: the rule expert as a baseline, and an oracle that shows what a market's planted truth would have one do.

A teacher acts for observations of single-symbol environments: `act(observation) -> (env,)` discrete orders. The rule
expert reads the windows; the oracle reads the truth at the place `index` (env, 2), block and bar, and only in bars
before `stop`, the end of the training set: nothing that it teaches is judged on bars that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np

from pacesetter.arrays import Array
from pacesetter.envs.batch.account_entries import PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import DataError
from pacesetter.evaluation.baselines.baseline import Baseline
from pacesetter.evaluation.baselines.forecasting import choose_thresholds, fill_returns
from pacesetter.learning.expert import NEEDED, RuleExpert
from pacesetter.market.orders import Discrete
from pacesetter.market.parameters import BPS, MarketParameters
from pacesetter.panel import Panel
from pacesetter.policies.policy import Snapshot
from pacesetter.registry import configure
from pacesetter.truth import Truth

__all__ = ["Expert", "OracleTeacher"]


@dataclass(frozen=True)
class Expert(Baseline):
    """The rule expert of `learning.expert` for every symbol, by discrete orders.

    features, regimes   names of the window's last axis, and of the entry `regime`
    """

    name: ClassVar[str] = "expert"
    action: ClassVar[str] = "discrete"
    features: tuple[str, ...]
    regimes: tuple[str, ...] = ()
    rule: RuleExpert = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = {"window": self.features} | ({"regime": self.regimes} if self.regimes else {})
        object.__setattr__(self, "rule", RuleExpert(names))

    @classmethod
    def lacks(cls, bank: Bank) -> str:
        missing = [name for name in NEEDED if name not in bank.names["window"]]
        return f"features {', '.join(missing)}" if missing else ""

    @classmethod
    def on(cls, bank: Bank, market: MarketParameters, **options: object) -> Self:
        names = {"features": tuple(bank.names["window"]), "regimes": tuple(bank.names.get("regime", ()))}
        return configure(cls, names | options, cls.name)

    def decide(self, snapshot: Snapshot) -> Array:
        return np.asarray(self.rule.act(snapshot.observation), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class OracleTeacher:
    """Buys large where the planted response of the next bar is above `entry`, sells all where it is below `leave`.

    responses   (block, time) planted log return of the bar after each, for the blocks of a bank; NaN from `stop` on
    """

    responses: Array
    entry: float
    leave: float
    stop: int

    @classmethod
    def from_truth(
        cls, panel: Panel, bank: Bank, market: MarketParameters, stop: int, shown: int | None = None
    ) -> Self:
        """The oracle of bars before `stop`; refuses a market without truth, or one in which trading never pays.

        Thresholds are those with the best Sharpe ratio after costs on these bars. As a yardstick, not a teacher,
        it is shown more bars: those before `shown`.
        """
        truth: Truth | None = panel.truth
        if truth is None:
            raise DataError("an oracle needs a market with a known truth; give data=synthetic")
        costs = market.costs
        # A side pays half of the spread.
        side = (costs.commission_bps + costs.spread_bps / 2 + costs.slippage_bps) * BPS
        known = panel.rows(0, stop)
        ahead, size = truth.response[1:], min(market.limits.position_cap_fraction, 1.0)
        # On training bars alone: thresholds chosen on test bars would leak into what is taught.
        chosen = choose_thresholds(ahead[: stop - 1], fill_returns(known)[: stop - 1], side, size)
        if not np.isfinite(chosen.entry):
            raise DataError(
                "in this market no trade earns its costs, not even the oracle's; lower costs or raise strength"
            )
        columns = [panel.position(name) for (name,) in bank.symbols]
        last = (stop if shown is None else shown) - 1
        # NaN from `stop` on, so that a question about a later bar is refused instead of answered.
        responses = np.full((len(columns), len(panel)), np.nan)
        responses[:, :last] = ahead[:last, columns].T
        return cls(responses, chosen.entry, chosen.exit, last + 1)

    def act(self, observation: Mapping[str, Array], deterministic: bool = True) -> Array:
        """(env,) discrete orders; refuses a bar of which it was not told."""
        block, bar = np.asarray(observation["index"]).T
        forecast = self.responses[block, bar]
        if np.isnan(forecast).any():
            raise DataError(f"the oracle teaches bars before {self.stop - 1} only; it was asked for bar {bar.max()}")
        is_held = np.asarray(observation["position"])[..., PositionEntry.WEIGHT] != 0
        wanted = [~is_held & (forecast > self.entry), is_held & (forecast < self.leave)]
        return np.select(wanted, [Discrete.BUY_LARGE, Discrete.SELL_ALL], Discrete.HOLD)
