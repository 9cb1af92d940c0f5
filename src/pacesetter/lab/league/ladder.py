"""Who plays in the league and where: markets of rising difficulty, entrants by their overrides, seeds by purpose.

Settings are chosen on the tuning seeds and reported on the reporting seeds, once. The two never mix.
"""

from __future__ import annotations

from collections.abc import Iterable

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.baselines.closed_forms import WorldGoal

__all__ = [
    "CLOSED",
    "ENTRANTS",
    "GOALS",
    "MARKETS",
    "NEED_TRUTH",
    "ONLY_NAMED",
    "QUICK",
    "REAL",
    "SEEDS",
    "WORLDS",
    "YARDSTICKS",
    "entrants_of",
    "markets_of",
    "own_goal",
    "seeds_of",
]

SEEDS = {"tuning": (1, 2, 3, 4, 5, 6), "reporting": (201, 202, 203, 204, 205)}
BARS = 5_400
SIGNAL_ENDS = 3_900  # half-way through the test set
SHARES = "train.shares=[0.33334,0.11112]"  # 1,800 bars to learn from, 600 to choose by, 3,000 to be judged on
_PLANTED = ("+preset=planted", f"data.bars={BARS}", SHARES)
TEST_BARS = 3_000


def _short_market(bars: int) -> tuple[str, ...]:
    """The planted market with fewer bars to learn from, a third as many to choose by, and as many to be judged on."""
    chosen = bars // 3
    whole = bars + chosen + TEST_BARS
    shares = f"train.shares=[{bars / whole:.6f},{chosen / whole:.6f}]"
    return "+preset=planted", f"data.bars={whole}", shares, "data.strength=0.4"


def _large_market(symbols: int, groups: int, strength: float, bars: int, shares: str) -> tuple[str, ...]:
    """The planted market with many symbols, of which all but the leaders follow."""
    sizes = (f"data.symbols={symbols}", f"data.groups={groups}", f"data.bars={bars}", f"data.strength={strength}")
    return "+preset=planted", *sizes, f"train.shares={shares}"


_DECILES = (
    *("data=deciles", "features.names=[return_1,volatility_20]", "train.shares=[0.6,0.2]", "task.window_bars=2"),
    *("task.market.costs.spread_bps=0.0", "task.market.costs.slippage_bps=0.0"),
)
_EFFECT = ("data.start=1963-01-01", "data.end=1995-12-31")  # large companies led small ones then
_GONE = ("data.start=2009-01-01", "data.end=2025-12-31")  # and do no longer
# Relations that hold for long in calm regimes and change every 30 bars in wild ones; 4,800 bars to learn from, 1,200
# to choose by, 2,000 to be judged on. Nothing else is in the way: no common factor, no fat tails.
_WINDOWS = (
    *("data=synthetic", "data.symbols=8", "data.bars=8000", "data.groups=1", "data.unrelated_share=0"),
    *("data.strength=1.5", "data.negative_share=0", "data.max_delay=1", "data.market_correlation=0", "data.spread=0"),
    *("data.volatility_clustering=0", "data.tail_degrees=1e9", "data.gap_share=0", "data.path_steps=1"),
    *("~data.regimes", "+data.regimes={calm:[0.0,0.5],wild:[0.0,2.0]}"),
    *("data.regime_bars=500", "data.relation_change_bars=[20000,30]"),
    "train.shares=[0.6,0.15]",
)
_FLAT = "~data.regimes", "+data.regimes={flat:[-0.01125,1.0]}"  # no symbol is expected to rise
_CALM_AND_WILD = (
    *("~data.regimes", "+data.regimes={calm:[-0.005,0.6667],wild:[-0.02,1.3333]}"),
    "data.transition=[[0.9875,0.0125],[0.0153846,0.9846154]]",  # stretches of 80 and 65 bars on average
)
_DEEP = (
    "task.market.costs.impact_bps=50",
    "task.market.limits.volume_cap_fraction=0.5",
    "task.market.initial_cash=1e7",
)


def _world(name: str, regimes: tuple[str, ...], *more: str) -> tuple[str, ...]:
    """A world of `data.worlds` at its recorded difficulty, with the ladder's symbols, bars and costs."""
    return *_PLANTED, *regimes, "data.size_spread=0.0", f"data.world={name}", *more


# Shorts, no caps, and as in the papers: one volatility, independent symbols, normal bars without gaps.
_UNCAPPED = (
    *("task.market.limits.shorting=true", "task.market.limits.position_cap_fraction=1.0"),
    *("task.market.limits.gross_leverage=100.0", "task.market.orders.minimum_trade=0.0"),
    *("task.market.costs.commission_bps=0.0", "task.market.costs.spread_bps=0.0", "task.market.costs.slippage_bps=0.0"),
    *("task.market.costs.borrow_bps_per_year=0.0", "data.market_correlation=0.0", "data.volatility_clustering=0.0"),
    *("data.tail_degrees=1e9", "data.gap_share=0.0", "data.spread=0.0"),
)
# Quadratic costs at five times the aversion, of an account so large that it holds little of its equity.
_QUADRATIC = (
    *("task.market.costs.impact_model=linear", "task.market.costs.impact_bps=335.0"),
    *("task.market.limits.volume_cap_fraction=1.0", "task.market.initial_cash=1e9"),
)
# Of the recorded drift nothing is to be found in 1,800 bars; at 30 % volatility no share reaches 1.
_DRIFT = (
    *("data.difficulty=0.25", "data.volatility=0.3", "~data.regimes", "+data.regimes={flat:[-0.045,1.0]}"),
    "data.negative_share=0.0",
)
WORLDS = {
    "threshold": _world("threshold", _FLAT),
    "regime": _world("regime", _CALM_AND_WILD),
    "product": _world("product", _FLAT, "data.leaders=2", "data.groups=1", "data.leader_correlation=0.0"),
    "fading": _world("fading", _FLAT),
    "persistent": _world("persistent", _FLAT, "data.max_delay=1", "task.market.costs.commission_bps=13.5"),
    "impact": _world("impact", _FLAT, *_DEEP),
    "decay": _world("decay", _FLAT, *_UNCAPPED, *_QUADRATIC),
    "cushion": _world("cushion", (), *_UNCAPPED, *_DRIFT),
}
CLOSED = "oracle_closed"  # of worlds whose best policy is a formula, in place of `oracle_sized`
# What these are measured by instead of a Sharpe ratio; shares are of the closed form's.
GOALS = {"decay": WorldGoal(aversion=3_000.0), "cushion": WorldGoal(limit=0.2)}
MARKETS: dict[str, tuple[str, ...]] = {
    "noise": (*_PLANTED, "data.strength=0"),
    "planted 0.1": (*_PLANTED, "data.strength=0.1"),
    "planted 0.2": (*_PLANTED, "data.strength=0.2"),
    "planted 0.4": (*_PLANTED, "data.strength=0.4"),
    "planted 0.8": (*_PLANTED, "data.strength=0.8"),
    **{f"{bars} bars 0.4": _short_market(bars) for bars in (450, 900)},  # 1,800 of them are `planted 0.4`
    "switching 0.4": (*_PLANTED, "data.strength=0.4", "data.relation_change_bars=1000"),
    "ending 0.4": (*_PLANTED, "data.strength=0.4", f"data.signal_bars={SIGNAL_ENDS}"),
    "50 symbols 0.8": _large_market(50, 10, 0.8, BARS, "[0.33334,0.11112]"),
    # All answer one leader alike and weakly: little in each symbol's bars, much in all of them.
    "50 symbols alike 0.1": (
        *_large_market(50, 1, 0.1, BARS, "[0.33334,0.11112]"),
        *("data.negative_share=0", "data.max_delay=1", "data.spread=0.0"),
    ),
    **{f"143 symbols {strength}": _large_market(143, 28, strength, 6_000, "[0.6,0.1]") for strength in (0.2, 0.4)},
    "deciles 1963-1995, 1 bp": (*_DECILES, *_EFFECT, "task.market.costs.commission_bps=1.0"),
    "deciles 1963-1995, 10 bps": (*_DECILES, *_EFFECT, "task.market.costs.commission_bps=10.0"),
    "deciles 2009-2025, 1 bp": (*_DECILES, *_GONE, "task.market.costs.commission_bps=1.0"),
    "windows": _WINDOWS,
    **WORLDS,
}
LARGE = ("50 symbols", "143 symbols")  # markets that are played only where they are named: features take minutes
WINDOWS = "windows"  # market of the lookback problem, which no trader plays
REAL = "deciles"  # markets of which there is one, so that one seed is played, and whose truth is unknown
NEED_TRUTH = (
    CLOSED,
    "oracle_sized",
    "oracle_planned",
    "oracle_formula",
    "oracle",
    "oracle_returns",
    "expected",
)  # the last needs lead–lag features
_VALIDATED = ("train.validate_every=20480", "train.log_every=20480")  # how soon it learns is seen by these
_FLEET = ("task=fleet", "task.action=target", "task.retrain_share=0", "train.checkpoint_every=0")
_SMALL = ("agent.network=mlp_tiny", "agent.heads=[32]")
_SAC = (
    *("agent.learning_rate=0.003", "agent.encoder_learning_rate=0.003", "agent.gamma=0.3", "agent.gradient_steps=4"),
    *("agent.batch_size=256", "agent.learning_starts=1024", "agent.tau=0.02"),
)
_SAMPLES = ("train.envs=32", "train.steps=49152", "train.validate_every=8192", "train.log_every=8192")
# Chosen on tuning seeds 1 to 3 of planted 0.4: less aversion holds three times the risk of the sized yardsticks, twice
# as much ends in cash with SAC; a tenth of the steps has 4.6 where these have 5.0.
_MV = ("task.action=target", "task.aversion=300", "train.steps=122880", "train.validate_every=20480")
_AROUND = ("agent.prior=direct", "agent.prior_reach=0.25")
YARDSTICKS = (
    *("oracle_sized", CLOSED, "lasso_sized", "ridge_sized", "trees_sized"),
    *("learned_sized", "oracle_planned", "oracle_formula", "lasso_formula", "ridge_formula"),
    *("oracle", "oracle_returns", "lasso", "ridge", "expected", "hold", "cash"),
)
ENTRANTS: dict[str, tuple[str, ...]] = {
    "direct": (
        "task=fleet",
        "agent=direct",
        *("features.leadlag.lookback=null", "features.names=[return_1,gap]"),  # all that it reads
        "train.steps=61440",
        "train.validate_every=30720",
        "train.log_every=30720",
    ),
    "ppo": ("agent=ppo_small", "task.action=discrete", *_VALIDATED),
    # Chosen on tuning seeds 1 and 2, by `pacesetter lab ablate actions`: 83 % of the oracle, discrete orders 37 %.
    "ppo_target": ("agent=ppo_small", "task.action=target", "train.steps=20480", "train.validate_every=10240"),
    "ppo_expected": ("agent=ppo_small", "task.action=discrete", "agent.advantages=expected", *_VALIDATED),
    "sac": ("agent=sac_small", "task.action=continuous", *_VALIDATED),
    "options": ("agent=options_small", "task.action=continuous", *_VALIDATED),
    "option_critic": ("agent=option_critic", "task.action=continuous", *_VALIDATED),
    # Fleets with the samples of `ppo_fleet` but ES, whose population needs more of them and less time for each.
    "ppo_fleet": (
        *(*_FLEET, *_SMALL, *_SAMPLES, "agent=ppo", "agent.learning_rate=0.005", "agent.encoder_learning_rate=0.002"),
        *("agent.gamma=0.5", "agent.n_steps=32", "agent.gae_lambda=0.5", "agent.clip_range=0.3"),
        "agent.target_kl=null",
    ),
    "sac_fleet": (*_FLEET, *_SMALL, *_SAMPLES, "agent=sac", *_SAC),
    "sac_hindsight": (*_FLEET, *_SMALL, *_SAMPLES, "agent=sac", *_SAC, "agent.hindsight={k:4,strategy:future}"),
    "es": (*_FLEET, "agent=es_small", "train.envs=8", "train.steps=819200", "train.validate_every=81920"),
    "hybrid": (*_FLEET, "agent=hybrid_small", *_SAMPLES),
    "impala": (*_FLEET, "agent=impala_small", *_SAMPLES),
    # Risk in the reward, an ensemble of it, and the same around a prior; `prior` is the prior alone, never trained.
    "ppo_mv": ("agent=ppo_small", *_MV),
    "ppo_mv_five": ("agent=ppo_small", *_MV, "agent.members=5"),
    "sac_mv": ("agent=sac_small", *_MV, "agent.ent_coef=0.0005"),
    "ppo_prior": ("agent=ppo_small", *_MV, *_AROUND),
    "sac_prior": ("agent=sac_small", *_MV, "agent.ent_coef=0.0005", *_AROUND),
    "prior": ("agent=ppo_small", *_MV, *_AROUND, "train.steps=1", "agent.learning_rate=1.0e-12"),
}
_BESIDE = ("learned_sized", "oracle_planned", "oracle_formula", "lasso_formula", "ridge_formula")
# Those behind the yardsticks take minutes a cell.
ONLY_NAMED = (
    *_BESIDE,
    "options",
    "option_critic",
    "ppo_fleet",
    "sac_fleet",
    "sac_hindsight",
    "es",
    "hybrid",
    "impala",
    *("ppo_mv", "ppo_mv_five", "sac_mv", "ppo_prior", "sac_prior", "prior"),
)
QUICK = (("planted 0.2", "planted 0.4"), "1+2+3")  # markets and seeds of a run that a laptop does in half an hour


def own_goal(market: str, entrant: str) -> tuple[str, ...]:
    """Overrides by which an entrant learns what its world is measured by; none where that is a Sharpe ratio."""
    goal = GOALS.get(market)
    if goal is None or entrant != "direct":
        return ()
    if goal.limit:
        # Only a master can hold in proportion to what is left above the limit.
        # Drifts are asked for by name: on the tuning seeds of all other worlds they are refused, and change nothing.
        groups = "agent.dictionary=[lags,large,state,product,slow,recent,intraday,pooled,memory,drift]"
        return "agent.objective=cushion", "agent.network=team", f"agent.drawdown_limit={goal.limit}", groups
    return "agent.objective=mean_variance", f"agent.risk_aversion={goal.aversion}", "agent.softness=1e-6"


def markets_of(names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Markets by name, in the ladder's order, all but the large ones without a name; refuses an unknown one."""
    markets = _select_known(names, MARKETS, "market")
    return {name: MARKETS[name] for name in markets if names or not name.startswith((*LARGE, WINDOWS, *WORLDS))}


def entrants_of(names: tuple[str, ...]) -> list[str]:
    """Yardsticks and entrants by name, without a name all but those played only where named; refuses an unknown one."""
    entrants = _select_known(names, [*YARDSTICKS, *ENTRANTS], "entrant")
    return [name for name in entrants if names or name not in ONLY_NAMED]


def seeds_of(purpose: str) -> tuple[int, ...]:
    """The seeds of a purpose, or a list such as `1+2+3`; refuses what is neither."""
    if purpose in SEEDS:
        return SEEDS[purpose]
    try:
        return tuple(int(text) for text in purpose.split("+"))
    except ValueError:
        raise ConfigError(f"league.seeds={purpose} must be tuning, reporting or seeds such as 1+2+3") from None


def _select_known(names: tuple[str, ...], known: Iterable[str], kind: str) -> list[str]:
    everything = list(known)
    for name in names:
        if name not in everything:
            raise ConfigError(f"league has no {kind} '{name}'{did_you_mean(name, everything)}")
    return [name for name in everything if name in names] if names else everything
