"""The agents of a fleet together: how alike they are, how much that diversifies, who earns, and whom to leave out.

Returns are a frame (time, agent), each agent with an equal part of the money; NaN where one does not play.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.build.fleet import best_fleet, build_market
from pacesetter.errors import ConfigError, DataError
from pacesetter.evaluation.fleet.agents import returns_frame
from pacesetter.evaluation.statistics.contribution import Contribution, contribution_of
from pacesetter.evaluation.statistics.intervals import Difference, paired_difference
from pacesetter.rewards.sharpe import sharpe, sharpe_of_known

if TYPE_CHECKING:
    from pacesetter.evaluation.stored_run import StoredRun

__all__ = ["Ensemble", "evidence", "unseen_returns"]

REDUNDANT = 0.8  # correlation of two agents' returns from which one tells the other's tale
FEWEST_BARS = 20
FEWEST_DRAWS, DRAWS_EACH = 1000, 40  # of the bootstrap, in all and for each agent: twice what a level of 0.05 takes


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Agents by their returns (time, agent).

    redundant       correlation from which an agent is redundant beside a better one
    bars_per_year   of the returns
    """

    returns: pd.DataFrame
    bars_per_year: float
    redundant: float = REDUNDANT

    def __post_init__(self) -> None:
        if len(self.returns) < FEWEST_BARS or self.returns.shape[1] == 0:
            raise DataError(f"{self.returns.shape} returns are too few; give {FEWEST_BARS} bars or more")
        if not 0 < self.redundant <= 1:
            raise ConfigError(f"redundant={self.redundant} must be in 0 … 1")

    @cached_property
    def sharpe(self) -> pd.Series[float]:
        """Annualised Sharpe ratio of each agent; 0 for one that never moves."""
        return pd.Series(sharpe_of_known(self.returns.to_numpy(), self.bars_per_year), self.returns.columns)

    @cached_property
    def correlation(self) -> pd.DataFrame:
        """(agent, agent) of returns; 0 beside an agent that never moves."""
        # An agent that never moves has no correlation: NaN would spread through the eigenvalues.
        correlation = self.returns.corr().fillna(0.0).to_numpy(copy=True)  # (agent, agent)
        np.fill_diagonal(correlation, 1.0)
        return pd.DataFrame(correlation, self.returns.columns, self.returns.columns)

    @property
    def _of_movers(self) -> Array:
        """Correlations of the agents that ever move."""
        moves = self.returns.std(ddof=0).to_numpy() > 0
        matrix: Array = self.correlation.to_numpy()[np.ix_(moves, moves)]
        return matrix

    @property
    def mean_correlation(self) -> float:
        """Over all pairs of agents that ever move; NaN with fewer than two."""
        apart = ~np.eye(len(self._of_movers), dtype=bool)
        return float(self._of_movers[apart].mean()) if apart.any() else float("nan")

    @property
    def independent(self) -> float:
        """How many independent agents would vary as those that move: (Σλ)² / Σλ² over the correlations' eigenvalues."""
        values = np.linalg.eigvalsh(self._of_movers)
        # Participation ratio of the eigenvalues: n where all are equal, 1 where one factor moves everything.
        return float(values.sum() ** 2 / (values**2).sum()) if len(values) else 0.0

    @property
    def diversification(self) -> float:
        """Mean volatility of the agents / volatility of all in equal parts: 1 where they move as one."""
        together = self.combine().std(ddof=0)
        return float(self.returns.std(ddof=0).mean() / together) if together > 0 else float("nan")

    @property
    def contribution(self) -> Contribution:
        """What each agent earned, and how concentrated that is."""
        return contribution_of(self.returns.sum().to_numpy(), tuple(map(str, self.returns.columns)))

    @property
    def nearest(self) -> pd.DataFrame:
        """For each agent the one it moves most like (`other`), and their `correlation`."""
        others = self.correlation.where(~np.eye(len(self.correlation), dtype=bool), -np.inf)
        return pd.DataFrame({"other": others.idxmax(axis=1), "correlation": others.max(axis=1)})

    def table(self) -> pd.DataFrame:
        """A row for each agent, the largest contributor first: sharpe, share, other, correlation, suggestion."""
        shares = self.contribution.table[["share"]].join(self.nearest)
        return shares.assign(sharpe=self.sharpe, suggestion=self.suggestion)

    # ---- leaving out ----------------------------------------------------------------------------------------------

    def combine(self, agents: list[str] | None = None) -> pd.Series[float]:
        """(time,) returns of these agents in equal parts, of all by default; one that does not play holds cash."""
        return self.returns[agents or list(self.returns.columns)].fillna(0.0).mean(axis=1)

    @cached_property
    def suggestion(self) -> pd.Series[str]:
        """For each agent `keep`, `never trades`, `loses`, or `like` a better one that is kept."""
        said: dict[str, str] = {}
        kept: list[str] = []
        # The best first: of two that are alike the better one stays. Stable, so that equal ones keep the fleet's order.
        for agent in self.sharpe.sort_values(ascending=False, kind="stable").index:
            like = self.correlation.loc[agent, kept]
            if self.returns[agent].fillna(0.0).eq(0.0).all():
                said[agent] = "never trades"
            elif self.sharpe[agent] <= 0:
                said[agent] = "loses"
            elif len(like) and like.max() >= self.redundant:
                said[agent] = f"like {like.idxmax()}"
            else:
                said[agent] = "keep"
                kept.append(agent)
        return pd.Series(said)[list(self.returns.columns)]

    @property
    def kept(self) -> list[str]:
        """The agents that the suggestion keeps."""
        return [str(agent) for agent, said in self.suggestion.items() if said == "keep"]

    def pruned_later(self) -> tuple[float, float] | None:
        """Sharpe ratios in the second half of the bars of all agents, and of those that the first half would keep.

        None where the halves are too short, or where no agent would be kept.
        """
        half = len(self.returns) // 2
        if half < FEWEST_BARS:
            return None
        # Chosen on the first half and judged on the second: pruning on the judged bars would always look good.
        kept = Ensemble(self.returns.iloc[:half], self.bars_per_year, self.redundant).kept
        if not kept:
            return None
        later = pd.DataFrame({"all": self.combine(), "kept": self.combine(kept)}).iloc[half:]
        everybody, pruned = sharpe_of_known(later.to_numpy(), self.bars_per_year).tolist()
        return everybody, pruned


def evidence(returns: pd.DataFrame, bars_per_year: float, draws: int | None = None, seed: int = 0) -> pd.DataFrame:
    """For each agent `sharpe`, `low`, `high` (95 %), `p_value` of no difference to cash, and `q_value`.

    The q-value is after false-discovery control over all agents (Benjamini, Hochberg 1995): of the agents with one
    below 0.05, about one in twenty is there by luck. By default there are as many draws as that takes: a p-value is
    never below 1 / draws, and false-discovery control multiplies the smallest by the number of agents.
    """
    from scipy.stats import false_discovery_control

    # The smallest p-value is 1 / (draws + 1), and Benjamini–Hochberg multiplies it by the number of agents.
    draws = draws or max(FEWEST_DRAWS, DRAWS_EACH * returns.shape[1])
    rows = [_evidence_row(returns[agent].dropna().to_numpy(), bars_per_year, draws, seed) for agent in returns]
    table = pd.DataFrame(rows, index=returns.columns, columns=["sharpe", "low", "high", "p_value"])
    return table.assign(q_value=false_discovery_control(table["p_value"].to_numpy()))


def _evidence_row(returns: Array, bars_per_year: float, draws: int, seed: int) -> Difference:
    """The Sharpe ratio over cash, whose own is 0."""
    if np.ptp(returns) == 0:  # an agent that never trades is cash
        return Difference(0.0, 0.0, 0.0, 1.0)
    ratio = partial(sharpe, bars_per_year=bars_per_year)
    return paired_difference(returns, np.zeros_like(returns), ratio, draws=draws, seed=seed)


# ---- from a run -----------------------------------------------------------------------------------------------------


def unseen_returns(run: StoredRun) -> pd.DataFrame:
    """(time, agent) returns of each agent alone on the bars that neither taught nor chose the fleet."""
    from pacesetter.learning.fleet.validation import play

    market = build_market(run.config, run.panel, 1, starts="fixed", first_bar=run.first)
    return returns_frame(play(best_fleet(run.folder), market), market)
