"""Options of the tasks that trade: one symbol an episode, all in one account, or an agent for each symbol."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

from pacesetter.envs.batch.account_entries import ACCOUNT_ENTRIES
from pacesetter.envs.task_options import TaskOptions
from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.market.parameters import MarketParameters
from pacesetter.rewards.reward import RewardConfig

__all__ = ["FleetTrading", "Portfolio", "Trading"]

COPIED, STAGES = ("programme", "programme_adaptive"), 5  # curricula on copies of the bars, and their stages


@dataclass(frozen=True)
class Trading(TaskOptions):
    """Trade one symbol per episode; options as of `envs.batch.batch.Batch`. No symbols named means all of them."""

    problem: ClassVar[str] = "trading"

    action: Literal["discrete", "continuous", "hybrid", "target"] = "target"
    window_bars: int = 24
    episode_bars: int | None = 250
    starts: Literal["random", "stratified", "fixed"] = "random"
    symbols: tuple[str, ...] = ()
    curriculum: Annotated[
        Literal["none", "five_stages", "adaptive", "programme", "programme_adaptive"],
        "of the training episodes: five_stages, or adaptive, which also goes back, both on the bars as they are; "
        "programme and programme_adaptive, on copies of the training bars with other volatility and noise",
    ] = "none"
    noise: Annotated[
        tuple[float, ...],
        "of the copies, in deviations of the bars' returns, five numbers; none: the programme's",
    ] = ()
    account: Annotated[
        tuple[str, ...],
        "entries of `position` and `portfolio` that the agent's network sees; it reads 0 for the others. By "
        "default those without a memory: what a position has earned and how long it is held locks it in",
    ] = ("weight", "room", "is_trading")
    own_account: Annotated[
        bool,
        "a symbol agent in a joint account is shown an account that holds its position alone, as in training; "
        "false shows it the joint account",
    ] = True
    continued: Annotated[
        float,
        "probability that a training episode continues for another `episode_bars` when it would end, repeatedly, "
        "so that positions are held as long in training as later; 0 is never",
    ] = 0.0
    repetition_limit: Annotated[
        int | None,
        "equal discrete orders in a row, after which the mask of the training environments forbids another; null "
        "means no limit. Validation, backtests and serving play without it",
    ] = None
    switch: Annotated[
        Literal["action", "episode"],
        "whether the switch of action=hybrid counts for one action, or in training the first for the episode",
    ] = "action"
    utility: Annotated[
        Literal["auto", "reward", "mean_variance", "differential_sharpe"],
        "what takes the place of the component pnl in `reward`: mean_variance, r − aversion / 2 · r²; "
        "differential_sharpe; reward: nothing, as it is growth. auto: mean_variance where risk.target_volatility "
        "is given, else reward",
    ] = "auto"
    aversion: Annotated[
        float | None,
        "to variance of mean_variance; null: 2 / risk.target_volatility, with which an account of Sharpe ratio 2 "
        "has that volatility. What is so large that agents would stay in cash is cut, see `with_utility`",
    ] = None
    market: MarketParameters = field(default_factory=MarketParameters)
    reward: RewardConfig = field(default_factory=RewardConfig)

    def __post_init__(self) -> None:
        self._check_utility()
        for name in self.account:
            if name not in ACCOUNT_ENTRIES:
                raise ConfigError(f"task.account has no entry '{name}'{did_you_mean(name, ACCOUNT_ENTRIES)}")
        if not 0 <= self.continued < 1:
            raise ConfigError(f"task.continued={self.continued} must be 0 or more and below 1, or no episode would end")
        self._check_noise()
        if self.switch == "episode" and self.action != "hybrid":
            raise ConfigError(f"task.switch=episode is for task.action=hybrid, not {self.action}")
        limit = self.repetition_limit
        if limit is not None and (limit < 1 or self.action != "discrete"):
            raise ConfigError(f"task.repetition_limit={limit} needs 1 or more, and task.action=discrete; or null")

    def _check_noise(self) -> None:
        if self.noise and self.curriculum not in COPIED:
            raise ConfigError("task.noise sets the noise of a curriculum's copies; give task.curriculum=programme too")
        if self.noise and (len(self.noise) != STAGES or min(self.noise) < 0):
            raise ConfigError(f"task.noise={list(self.noise)} must be five numbers of 0 or more, one for each stage")

    def _check_utility(self) -> None:
        if self.aversion is not None:
            check_range(0, owner="task", aversion=self.aversion)
            if self.utility in ("reward", "differential_sharpe"):
                raise ConfigError(f"task.aversion is for task.utility=mean_variance, not {self.utility}; leave one out")
        if self.utility in ("mean_variance", "differential_sharpe") and "pnl" not in self.reward.components:
            raise ConfigError(
                f"task.utility={self.utility} takes the place of the component pnl, which task.reward.components lacks "
                f"({', '.join(self.reward.components)}); add it, or give task.utility=reward"
            )

    @property
    def actions(self) -> tuple[str, str]:
        return "task.action", self.action

    @property
    def unseen(self) -> tuple[str, ...]:
        """Where the account entries that are not shown stand in an observation, as a network's `unseen` names them."""
        return tuple(place for name, place in ACCOUNT_ENTRIES.items() if name not in self.account)


@dataclass(frozen=True)
class Portfolio(Trading):
    """Trade all symbols in one account, all entries of which are seen: what they do to it was not measured here."""

    problem = "portfolio"

    action: Literal["discrete", "continuous", "hybrid", "target"] = "target"
    account: tuple[str, ...] = tuple(ACCOUNT_ENTRIES)


@dataclass(frozen=True)
class FleetTrading(Trading):
    """Trade each symbol by an agent of its own; `train.steps` and `train.envs` are those of each agent."""

    problem = "fleet"

    bar_sharpe: Annotated[
        float,
        "annualised Sharpe ratio on the validation set; an agent that is not above it struggles",
    ] = 0.2
    retrain_share: Annotated[
        float,
        "of train.steps for which the heads of strugglers learn again from the start; 0 is never",
    ] = 0.5
    trades: Annotated[
        Literal["targets", "orders"],
        "how all agents trade one account: by targets, their proposals as shares of the position cap, or by their "
        "own orders, each of which spends a share of the cash that is left",
    ] = "targets"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.action == "hybrid":
            raise ConfigError(f"task.action={self.action} is not for a fleet; take target, discrete or continuous")
        # A target says what to hold, not what to trade: there is no order to send.
        if self.action == "target" and self.trades == "orders":
            raise ConfigError("task.action=target gives no orders; take task.trades=targets")
        if self.starts == "stratified" or (self.starts == "fixed" and self.curriculum != "none"):
            raise ConfigError(
                "a fleet starts its episodes random or fixed, with a curriculum random: task.starts=random"
            )
        check_range(0, owner="task", retrain_share=self.retrain_share)
