"""Who plays in the league and where: markets of rising difficulty, entrants by their overrides, seeds by purpose.

Settings are chosen on the tuning seeds and reported on the reporting seeds, once. The two never mix.
"""

from __future__ import annotations

from collections.abc import Iterable

from pacesetter.errors import ConfigError, did_you_mean

__all__ = ["ENTRANTS", "MARKETS", "QUICK", "SEEDS", "YARDSTICKS", "entrants_of", "markets_of", "seeds_of"]

SEEDS = {"tuning": (1, 2, 3, 4, 5), "reporting": (201, 202, 203, 204, 205)}
BARS = 5_400
SHARES = "train.shares=[0.33334,0.11112]"  # 1,800 bars to learn from, 600 to choose by, 3,000 to be judged on
_PLANTED = ("+preset=planted", f"data.bars={BARS}", SHARES)
MARKETS: dict[str, tuple[str, ...]] = {
    "noise": (*_PLANTED, "data.strength=0"),
    "planted 0.1": (*_PLANTED, "data.strength=0.1"),
    "planted 0.2": (*_PLANTED, "data.strength=0.2"),
    "planted 0.4": (*_PLANTED, "data.strength=0.4"),
    "planted 0.8": (*_PLANTED, "data.strength=0.8"),
    "switching 0.4": (*_PLANTED, "data.strength=0.4", "data.relation_change_bars=1000"),
}
YARDSTICKS = ("oracle", "oracle_returns", "lasso", "ridge", "expected", "hold", "cash")
ENTRANTS: dict[str, tuple[str, ...]] = {
    "ppo": ("agent=ppo_small",),
    "sac": ("agent=sac_small", "task.action=continuous"),
}
QUICK = (("planted 0.2", "planted 0.4"), "1+2+3")  # markets and seeds of a run that a laptop does in half an hour


def markets_of(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Markets by name, in the ladder's order; refuses an unknown one."""
    return {name: MARKETS[name] for name in _known(names, MARKETS, "market")}


def entrants_of(names: tuple[str, ...]) -> list[str]:
    """Yardsticks and entrants by name; refuses an unknown one."""
    return _known(names, [*YARDSTICKS, *ENTRANTS], "entrant")


def seeds_of(purpose: str) -> tuple[int, ...]:
    """The seeds of a purpose, or a list such as `1+2+3`; refuses what is neither."""
    if purpose in SEEDS:
        return SEEDS[purpose]
    try:
        return tuple(int(text) for text in purpose.split("+"))
    except ValueError:
        raise ConfigError(f"league.seeds={purpose} must be tuning, reporting or seeds such as 1+2+3") from None


def _known(names: tuple[str, ...], known: Iterable[str], kind: str) -> list[str]:
    everything = list(known)
    for name in names:
        if name not in everything:
            raise ConfigError(f"league has no {kind} '{name}'{did_you_mean(name, everything)}")
    return [name for name in everything if name in names] if names else everything
