"""Options of `agent=direct`; without torch, so that a configuration is checked before it is imported."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from pacesetter.errors import ConfigError, DataError, check_above, check_range, did_you_mean

if TYPE_CHECKING:
    from pacesetter.envs.batch.bank import Bank
    from pacesetter.market.covariance import RiskTables
    from pacesetter.market.parameters import MarketParameters
    from pacesetter.market.risk import RiskOptions

__all__ = ["ENCODED_BARS", "ENCODERS", "GROUPS", "RECENT_BARS", "SLOW_BARS", "USED", "Direct", "WholeMarket"]

# Of the dictionary; here, because that one imports torch.
USED = ("lags", "large", "state", "product", "slow", "recent", "intraday", "pooled", "memory")
ENCODERS = ("cross", "stream", "transformer")
GROUPS = (*USED, "features", "windows", "links", "drift", *ENCODERS)
SLOW_BARS, RECENT_BARS, ENCODED_BARS = 40, 80, 8

LEAST_FOLD_BARS = 20
NETWORKS = ("linear_cross", "shared", "team", "team_cross")


@dataclass(frozen=True, eq=False)
class WholeMarket:
    """The bars that a direct policy learns from, with the rules of its account, and how it is sized where it is."""

    bank: Bank
    market: MarketParameters
    risk: tuple[RiskOptions, RiskTables] | None = None


@dataclass(frozen=True)
class Direct:
    """Options of direct reinforcement."""

    lags: Annotated[int, "bars of every symbol's past that a signal reads"] = 5
    volatility_bars: Annotated[int, "of the volatility that moves and positions are measured by"] = 40
    cut: Annotated[float, "largest move, in units of volatility"] = 3.0
    folds: Annotated[int, "blocks of bars for the choice of the penalty"] = 5
    objective: Annotated[
        Literal["sharpe", "growth", "mean_variance", "cushion"],
        "of accounts over segments: net Sharpe ratio, mean log growth, mean − aversion / 2 · variance, or log "
        "growth of what lies above the drawdown limit",
    ] = "sharpe"
    risk_aversion: Annotated[float, "of mean_variance"] = 10.0
    least_risk: Annotated[
        float,
        "of accounts, as a share of that of the first shape: below it the objective falls",
    ] = 0.1
    segment_bars: Annotated[
        int,
        "bars of a segment, the first `burn_in_bars` of which are not counted: they begin in cash",
    ] = 48
    burn_in_bars: int = 8
    segments: Annotated[int, "of a round"] = 64
    critic: Annotated[
        bool,
        "complete segments by what their ends are still worth, where held-out blocks confirm it: for segments that are "
        "shorter than positions last",
    ] = False
    learning_rate: Annotated[float, "of the shape"] = 0.05
    softness: Annotated[float, "of |turnover|, as a share of equity: see `ledger`"] = 1e-4
    network: Annotated[
        str,
        "linear_cross: sparse weights over the inputs of all symbols and one shape; shared: a network of all "
        "symbols that moves the shape by state, kept where held-out bars confirm it; team: an agent of each symbol "
        "on one encoder, with a master, see `team`; team_cross: agents that read their leaders",
    ] = "linear_cross"
    hidden: Annotated[int, "units of each of its two layers, or of a team's encoder"] = 24
    team_rounds: Annotated[int, "of every stage in which a team is trained"] = 15
    drawdown_limit: Annotated[
        float,
        "loss from the highest equity at which an account ends, of the objective `cushion`",
    ] = 0.2
    dictionary: Annotated[
        tuple[str, ...],
        "groups of inputs that are tried, see `dictionary`; used where they pay on held-out bars",
    ] = USED
    compile: Annotated[bool, "fuse the ledger's steps by torch.compile, which pays on a GPU"] = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.network not in NETWORKS:
            raise ConfigError(
                f"agent.network={self.network} is not a network of agent=direct; give linear_cross, shared, team "
                "or team_cross, or train agent=ppo or agent=sac with it"
            )
        for group in self.dictionary:
            if group not in GROUPS:
                raise ConfigError(
                    f"agent.dictionary={list(self.dictionary)} names '{group}'{did_you_mean(group, GROUPS)}; give some "
                    f"of {', '.join(GROUPS)}"
                )
        if "lags" not in self.dictionary:
            raise ConfigError(f"agent.dictionary={list(self.dictionary)} needs lags, which all else is tried beside")
        check_range(1, owner="agent", lags=self.lags, segments=self.segments, hidden=self.hidden)
        check_range(1, owner="agent", team_rounds=self.team_rounds)
        check_range(0.001, 0.999, owner="agent", drawdown_limit=self.drawdown_limit)
        # Four half-lives of the volatility's weights lie in the window: a bar for each at least.
        check_range(4, owner="agent", volatility_bars=self.volatility_bars)
        check_range(2, owner="agent", folds=self.folds, segment_bars=self.segment_bars)
        # At least two bars must count, or there is no deviation.
        check_range(0, self.segment_bars - 2, owner="agent", burn_in_bars=self.burn_in_bars)
        check_range(0, 1, owner="agent", least_risk=self.least_risk)
        check_range(0, owner="agent", risk_aversion=self.risk_aversion, softness=self.softness)
        check_above(0, owner="agent", cut=self.cut, learning_rate=self.learning_rate)

    @property
    def team(self) -> dict[str, object] | None:
        """Options of the team; None without one."""
        if not self.network.startswith("team"):
            return None
        return {"width": self.hidden, "cross": self.network == "team_cross", "limit": self.drawdown_limit}

    @property
    def reads_windows(self) -> bool:
        """Whether it reads what lead–lag lets expect, by the windows of `features.leadlag.lookback`."""
        return "windows" in self.dictionary

    @property
    def history_bars(self) -> int:
        """Bars that an observation must show."""
        slow = SLOW_BARS if "slow" in self.dictionary else 0
        recent = RECENT_BARS if "recent" in self.dictionary else 0
        encoded = ENCODED_BARS if set(ENCODERS) & set(self.dictionary) else 0
        return self.volatility_bars + max(slow, self.lags + max(recent, encoded))

    def check_bars(self, bars: int) -> None:
        """Refuse training bars of which too few are left behind the first full observation."""
        first = self.lags + self.volatility_bars - 1
        left = max(bars - first, 0)
        needed = max(self.segment_bars + 1, LEAST_FOLD_BARS * self.folds)
        if left < needed:
            raise DataError(
                f"agent=direct has {left} training bars behind its first {first}; it needs {needed}: "
                "give more bars, or smaller agent.segment_bars and agent.folds"
            )
