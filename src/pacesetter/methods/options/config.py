"""Options of `agent=options`: which options there are, their thresholds, and how they are learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pacesetter.errors import ConfigError, check_range, did_you_mean
from pacesetter.learning.fleet_config import FleetConfig

__all__ = ["HISTORY_BARS", "WAIT", "WRITTEN", "FleetOptions", "OptionRules"]

WRITTEN = ("open_long", "close", "trend", "scalp", "wait")
WAIT = "wait"  # the one that is always allowed
HISTORY_BARS = 20  # returns that the written options read: two moving averages and a deviation


@dataclass(frozen=True)
class OptionRules:
    """Thresholds of the written options; positions are shares of equity, gains and gaps shares of a price."""

    flat: Annotated[float, "a position smaller than this counts as none"] = 0.01
    full: Annotated[float, "a position that opening and following a trend stop at"] = 0.10
    entry_steps: Annotated[int, "most bars of open_long"] = 10
    entry_ends: Annotated[float, "its probability to end at each of the others"] = 0.1
    min_confidence: Annotated[
        float,
        "of open_long against wait by the selector, below which the deterministic policy does not open",
    ] = 0.6
    loss: Annotated[float, "return of a position at which close sells all"] = 0.01
    small_gain: Annotated[float, "return at which close sells a part"] = 0.01
    large_gain: Annotated[float, "return at which close sells most of it"] = 0.02
    close_ends: Annotated[float, "its probability to end while something is held"] = 0.05
    trend_gap: Annotated[
        float,
        "|SMA10 − SMA20| / SMA20 that is a trend the smaller of both counts, so that quiet markets have trends",
    ] = 0.02
    trend_deviations: Annotated[float, "the same in deviations of 20 bars;"] = 1.5
    trend_ends: Annotated[float, "probability to end in a trend"] = 0.1
    trend_lost: Annotated[float, "probability to end below half of the threshold"] = 0.8
    scalp_fall: Annotated[float, "scalp buys below − this many deviations of the last return"] = 1.0
    scalp_gain: Annotated[float, "deviations of the gain at which scalp leaves"] = 0.5
    scalp_steps: Annotated[int, "bars after which it leaves in any case"] = 5
    wait_ends: Annotated[float, "its probability to end; it ends at once when another option becomes possible"] = 0.2

    def __post_init__(self) -> None:
        shares = ("entry_ends", "min_confidence", "close_ends", "trend_ends", "trend_lost", "wait_ends")
        check_range(0, 1, owner="agent.rules", **{name: vars(self)[name] for name in shares})
        check_range(1, owner="agent.rules", entry_steps=self.entry_steps, scalp_steps=self.scalp_steps)
        rest = vars(self).keys() - {*shares, "entry_steps", "scalp_steps"}
        check_range(0, owner="agent.rules", **{name: value for name, value in vars(self).items() if name in rest})


@dataclass(frozen=True)
class FleetOptions(FleetConfig):
    """Options of options.

    written: gradient_steps of a round, buffer_size completed options of each symbol that are kept, learning_starts with
    them, epsilon of choices drawn evenly, tau by which the target values follow
    learned: n_epochs of a round, gae_lambda, clip_range of their orders, vf_coef of the values, deliberation_cost that
    ending an option is charged, in deviations of a return (Harb et al. 2018)
    """

    kind: Annotated[
        Literal["written", "learned"],
        "written: five rules, of which the selector is learned; learned: option-critic",
    ] = "written"
    options: Annotated[tuple[str, ...], "written ones that there are; wait must be among them"] = WRITTEN
    count: Annotated[int, "how many learned ones"] = 4
    option_timeout: Annotated[int, "bars after which any option ends"] = 20
    rules: Annotated[OptionRules, "thresholds of the written ones"] = field(default_factory=OptionRules)
    seen_bars: Annotated[
        int | None,
        "newest bars that the network is shown; the rules read 20 returns. null shows all of the window",
    ] = None
    learning_rate: float = 1e-4
    encoder_learning_rate: float = 1e-4
    max_grad_norm: float = 1.0
    gamma: float = 0.95
    n_steps: Annotated[int, "of each environment in a round"] = 32
    batch_size: Annotated[int, "completed options of each symbol in a gradient step; of learned ones, rows"] = 32
    ent_coef: Annotated[float, "weight of the selector's entropy; of learned options also of their orders'"] = 0.01
    gradient_steps: int = 16
    buffer_size: int = 4_000
    learning_starts: int = 64
    epsilon: float = 0.1
    tau: float = 0.01
    n_epochs: int = 4
    gae_lambda: float = 0.8
    clip_range: float = 0.2
    vf_coef: float = 0.5
    deliberation_cost: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        # With one bar an option is a single order, and selecting would be deciding every bar.
        check_range(2, owner="agent", option_timeout=self.option_timeout)
        check_range(1, owner="agent", count=self.count, learning_starts=self.learning_starts)
        check_range(0, 1, owner="agent", epsilon=self.epsilon, tau=self.tau, gae_lambda=self.gae_lambda)
        check_range(0, owner="agent", ent_coef=self.ent_coef, deliberation_cost=self.deliberation_cost)
        if self.seen_bars is not None:
            check_range(1, owner="agent", seen_bars=self.seen_bars)
        for name in self.options:
            if name not in WRITTEN:
                raise ConfigError(f"agent.options has no option '{name}'{did_you_mean(name, WRITTEN)}")
        if WAIT not in self.options or len(set(self.options)) < max(len(self.options), 2):
            raise ConfigError(
                f"agent.options={list(self.options)} must name wait and at least one other, each once: where no other "
                "option is possible, the selector waits"
            )

    @property
    def history_bars(self) -> int:
        """Bars of a window that the options need."""
        return max(HISTORY_BARS, self.seen_bars or 1)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the options that there are."""
        if self.kind == "written":
            return tuple(name for name in WRITTEN if name in self.options)
        return tuple(f"option_{number}" for number in range(1, self.count + 1))

    def describe(self) -> dict[str, object]:
        """What a stored policy must know of them, as JSON holds it."""
        return {
            "names": list(self.names),
            "is_learned": self.kind == "learned",
            "timeout": self.option_timeout,
            "seen_bars": self.seen_bars,
            "rules": vars(self.rules),
        }
