"""What `regime` can be told by: sparse weights with the regime estimated from returns, from ranges, and known.

    python benchmarks/regime_state.py [--seeds 1+2+3+4+5+6] [--record]

In the world `regime` the sign of every relation turns with volatility. Weights over lags, and over lags times a state,
are fitted to the training bars as `agent=direct` fits them; what they say of the test bars is held against the planted
response. Only the state differs, so that what a better one could bring is seen.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from record import publish, table

from pacesetter.arrays import Array
from pacesetter.build import build_panel
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.methods.direct.sparse import fit_sparse
from pacesetter.panel import Panel

TRAINING, TEST = 1_800, 2_400  # bars to learn from; the first bar of the test set
LAGS, VOLATILITY_BARS, STATE_BARS, CUT, PURGE = 5, 40, 8, 3.0, 7  # those of `agent=direct`
ROUNDS, LEAST_SPREAD = 60, 0.05  # of expectation and maximisation


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="1+2+3+4+5+6")
    asked = parser.parse_known_args()[0]
    seeds = [int(seed) for seed in asked.seeds.split("+")]
    found = [correlations(build_panel(resolve([*MARKETS["regime"], f"seed={seed}"]))) for seed in seeds]
    rows = [
        [
            name,
            *(f"{each[name][0]:.2f}" for each in found),
            *mean_of(name, found),
        ]
        for name in found[0]
    ]
    header = ["state by", *(f"seed {seed}" for seed in seeds), "mean", "of the state with the regime"]
    about = "Correlation of what the weights say with the planted response, on the test bars."
    publish("regime_state", f"{about}\n\n{table(header, rows)}", "What the sign of `regime` can be told by")


def mean_of(name: str, found: list[dict[str, tuple[float, float]]]) -> list[str]:
    """Means over seeds of both correlations; without a state the second is none."""
    means = [float(np.mean([each[name][place] for each in found])) for place in (0, 1)]
    return ["" if math.isnan(mean) else f"{mean:.3f}" for mean in means]


def correlations(panel: Panel) -> dict[str, tuple[float, float]]:
    """State -> correlation of signals with the planted response, and of the state with the regime, on the test bars."""
    closes, opens = np.asarray(panel.close), np.asarray(panel.open)
    assert panel.truth is not None
    returns = np.vstack([np.zeros(closes.shape[1]), closes[1:] / closes[:-1] - 1])
    usual = np.sqrt((returns[:TRAINING] ** 2).mean(0))
    volatility = np.sqrt(recent_mean(returns**2, VOLATILITY_BARS))
    wild = np.where(panel.truth.regimes == 1, 1.0, -1.0)
    own, market = own_moves((closes / opens - 1)[1:] / volatility[:-1])
    ranges = np.log(np.asarray(panel.high) / np.asarray(panel.low))
    level = np.log(np.sqrt(recent_mean((returns / usual) ** 2, STATE_BARS)).mean(1))
    known = level[:TRAINING]
    states = {
        "none": None,
        "volatility of 8 bars, as in use": np.nan_to_num(np.tanh((level - np.nanmedian(known)) / np.nanstd(known))),
        "two-state filter of returns": told_state(np.log(np.abs(returns / usual).mean(1) + 1e-6)),
        "two-state filter of ranges": told_state(np.log(ranges / ranges[:TRAINING].mean(0) + 1e-4).mean(1)),
        "the regime itself": wild,
    }
    # From the open after a bar to the one after that, as orders are filled.
    earned = (opens[2:] / opens[1:-1] - 1) / volatility[:-2]
    planted = panel.truth.response[1:] / volatility[:-1]
    rows, test = np.arange(VOLATILITY_BARS + LAGS, TRAINING - 2), np.arange(TEST, len(closes) - 2)
    lags = lagged(own)
    plain = np.hstack([lags, lagged(market), np.ones((len(closes), 1))])
    found = {}
    for name, state in states.items():
        x = plain if state is None else np.hstack([plain, lags * state[:, None]])
        x = x / np.maximum(x[rows].std(0), 1e-9) if state is not None else x
        weights = fit_sparse(x[rows], earned[rows].clip(-CUT, CUT), purge_bars=PURGE).weights
        said, true = x[test] @ weights, planted[test]
        follows = np.abs(true).sum(0) > 0
        said, true = said[:, follows], true[:, follows]
        shared = float((said * true).sum() / np.sqrt((said**2).sum() * (true**2).sum()))
        found[name] = shared, math.nan if state is None else float(np.corrcoef(state[test], wild[test])[0, 1])
    return found


def own_moves(moves: Array) -> tuple[Array, Array]:
    """(bar, symbol) moves without the market, and (bar, 1) the market's; of the first bar nothing is known."""
    moves = np.vstack([np.zeros(moves.shape[1]), np.nan_to_num(moves).clip(-CUT, CUT)])
    others = (moves.sum(1, keepdims=True) - moves) / (moves.shape[1] - 1)
    beta = (moves[:TRAINING] * others[:TRAINING]).sum(0) / (others[:TRAINING] ** 2).sum(0)
    return moves - beta * others, moves.mean(1, keepdims=True)


def lagged(values: Array) -> Array:
    """(bar, lag · column) the values of a bar and of those before it."""
    return np.hstack([np.roll(values, lag, axis=0) for lag in range(LAGS)])


def recent_mean(values: Array, bars: int) -> Array:
    """(bar, column) means of the last bars, weights halving every quarter of them; NaN before there are as many."""
    weights = 0.5 ** (np.arange(bars)[::-1] * 4.0 / bars)
    windows = np.lib.stride_tricks.sliding_window_view(values, bars, axis=0) @ (weights / weights.sum())
    return np.vstack([np.full((bars - 1, values.shape[1]), np.nan), windows])


def told_state(level: Array) -> Array:
    """(bar,) in (−1, 1): twice the filtered probability of the wilder of two states, less 1 (Hamilton 1989).

    Its numbers are fitted to the training bars by expectation and maximisation; the filter sees no later bar.
    """
    known = level[:TRAINING]
    is_high = known > np.median(known)
    means, spreads = np.array([known[~is_high].mean(), known[is_high].mean()]), np.full(2, known.std())
    stay, first = np.array([[0.97, 0.03], [0.03, 0.97]]), np.full(2, 0.5)
    for _ in range(ROUNDS):
        likely = densities(known, means, spreads)
        forward, sizes = filtered(likely, stay, first)
        backward, moved = np.ones_like(forward), np.zeros((2, 2))
        for t in range(len(known) - 2, -1, -1):
            ahead = likely[t + 1] * backward[t + 1] / sizes[t + 1]
            moved += forward[t][:, None] * stay * ahead
            backward[t] = stay @ ahead
        share = forward * backward
        stay, first = moved / moved.sum(1, keepdims=True), share[0] / share[0].sum()
        means = (share * known[:, None]).sum(0) / share.sum(0)
        spreads = np.sqrt((share * (known[:, None] - means) ** 2).sum(0) / share.sum(0)).clip(LEAST_SPREAD)
    now = filtered(densities(level, means, spreads), stay, first)[0]
    return 2.0 * now[:, int(means.argmax())] - 1.0


def densities(level: Array, means: Array, spreads: Array) -> Array:
    """(bar, state) how likely a bar is in each state."""
    dense: Array = np.exp(-0.5 * ((level[:, None] - means) / spreads) ** 2) / spreads + 1e-12
    return dense


def filtered(likely: Array, stay: Array, first: Array) -> tuple[Array, Array]:
    """(bar, state) probabilities by the bars up to each, and (bar,) what they were divided by."""
    now, sizes, before = np.zeros_like(likely), np.zeros(len(likely)), first
    for t, each in enumerate(likely):
        joint = (before if t == 0 else before @ stay) * each
        sizes[t] = joint.sum()
        now[t] = before = joint / sizes[t]
    return now, sizes


if __name__ == "__main__":
    main()
