"""What a report says beside a judgement of windows: what the agent looks at, what it is paid for, and who leads.

The best window of each bar is known afterwards: the table says which would have been best, by how much, and what the
market was like then.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.build import load_agent
from pacesetter.evaluation.explain.attribution import integrated_gradients
from pacesetter.evaluation.explain.behaviour import anomaly_overlay, attention_map
from pacesetter.evaluation.explain.reward_audit import audit
from pacesetter.evaluation.lookback.judgement import AGENT, LookbackJudgement
from pacesetter.evaluation.report.page import Section, number
from pacesetter.evaluation.report.pictures import style_figure
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.observed import mean_observed
from pacesetter.leadlag.strategy import fill_to_fill_returns, follower_weights, last_moves
from pacesetter.leadlag.structure.anomaly import anomaly_score
from pacesetter.leadlag.structure.concentration import gini, herfindahl
from pacesetter.leadlag.structure.ranking import row_mean

if TYPE_CHECKING:
    from pacesetter.evaluation.lookback.stored import LookbackRun

__all__ = ["entry_names", "lookback_insights"]

EXPLAINED = 64  # decisions, evenly spread
ANOMALY_BARS, STEP = 60, 5
MOST_ROWS = 25
SHOWN_WINDOWS, CHOSEN = ("short", "middle", "long"), "chosen"  # entries of the observation that encode a window


def lookback_insights(run: LookbackRun, judgement: LookbackJudgement) -> list[Section]:
    """Attributions, attention, the best window and why, the reward audit, anomalies, and concentration."""
    return [
        *_attributions(run, judgement),
        _best_window(run, judgement),
        _audit(run, judgement),
        _anomalies(run, judgement),
        *_concentration(run, judgement),
    ]


def _attributions(run: LookbackRun, judgement: LookbackJudgement) -> list[Section]:
    """Integrated gradients by entry and asset of decisions that are evenly spread, and attention where there is any."""
    from pacesetter.learning.sb3.readout import readout

    task: Any = run.config.problem
    agent = load_agent(run.folder, task.environment(run.config, run.panel))
    rows = np.unique(np.linspace(0, len(judgement.times) - 1, EXPLAINED).astype(int))
    batch = run.task.make_batch(run.panel, len(rows))
    own = judgement.evaluation.lookbacks[:, judgement.evaluation.place(AGENT)]
    # The window in force at a decision is the one chosen at the bar before.
    held = np.concatenate([[run.task.windows.start], own[:-1]])[rows]
    batch.place(batch.markets[0], judgement.evaluation.bars[rows], held)
    observations = batch.observe()
    network = readout(agent)
    symbols = run.panel.symbols if network.encoder.layout.assets else ()
    attributions = integrated_gradients(agent, observations, entry_names(run, by_asset=bool(symbols)), symbols)
    sections = [finding.section() for finding in attributions.findings()]
    shares = attributions.by_feature().groupby("entry")["share"].sum().sort_values(ascending=False)
    sections += [_by_entry(shares), _by_lag(shares, run.task.windows.seen, held)]
    if network.encoder.assets is not None:
        sections.append(attention_map(agent, observations, symbols).section())
    return sections


def entry_names(run: LookbackRun, by_asset: bool) -> dict[str, tuple[str, ...]]:
    """Names of the numbers in each entry of an observation; windows by asset are named by their symbols."""
    view, grid = run.task.view, run.task.windows.grid
    names: dict[str, tuple[str, ...]] = {"lookback": ("in force", "shortest", "longest")}
    if not by_asset:
        encoded = view.coder().names(run.panel.symbols)
        names |= {entry: tuple(f"{entry} {name}" for name in encoded) for entry in (*SHOWN_WINDOWS, CHOSEN)}
    if view.features:
        names["context"] = view.features
    if view.records:
        names["record"] = tuple(f"window {bars}, last {span} bars" for span in view.records for bars in grid)
    return names


def _by_entry(shares: pd.Series) -> Section:
    """Which of the windows shown had the most influence."""
    rows = tuple((str(name), f"{share:.1%}") for name, share in shares.items())
    text = (
        "Share of the influence by entry of the observation: the windows shown, the one in force, the context, and how "
        "well each window predicted lately (record)."
    )
    return Section("Attribution by entry", text, (), ("entry", "share"), rows)


def _by_lag(shares: pd.Series, shown: tuple[int, int, int], held: Array) -> Section:
    """How far back the influence reaches: that of each window, spread evenly over its bars."""
    reaches = dict(zip(SHOWN_WINDOWS, shown, strict=True)) | {CHOSEN: int(np.rint(np.mean(held)))}
    known = {name: float(shares[name]) for name in reaches if name in shares}
    edges, total = [0, *sorted({reaches[name] for name in known})], sum(known.values())
    rows = []
    for begin, end in itertools.pairwise(edges):
        # Windows end at the decision: all that reach beyond `begin` cover the lags up to `end`.
        inside = sum(share / reaches[name] for name, share in known.items() if reaches[name] >= end) * (end - begin)
        rows.append((f"{begin} to {end - 1}", f"{inside / max(total, 1e-12):.1%}"))
    text = (
        "Share of the windows' influence by the age of the bars, in bars before the decision. An encoding has no axis "
        "of bars, so the influence of a window is spread evenly over those it covers; the chosen one has its mean."
    )
    return Section("Attribution by lag", text, (), ("lag", "share"), tuple(rows))


def _best_window(run: LookbackRun, judgement: LookbackJudgement) -> Section:
    """Which window would have been best at each bar, when, and what the agent had instead."""
    evaluation = judgement.evaluation
    constants = [name for name in evaluation.names if name.startswith("constant ")]
    rewards = evaluation.rewards[:, [evaluation.place(name) for name in constants]]
    best, own = rewards.argmax(axis=1), evaluation.rewards[:, evaluation.place(AGENT)]
    moves = np.abs(np.diff(np.log(run.panel.close), axis=0, prepend=np.nan))
    volatility = pd.Series(mean_observed(moves, axis=1)).rolling(20, min_periods=5).mean().to_numpy()[evaluation.bars]
    rows = []
    for place, name in enumerate(constants):
        bars = best == place
        if bars.any():
            rank = float((volatility[bars, None] > np.nanmedian(volatility)).mean())
            chosen = evaluation.lookbacks[bars, evaluation.place(AGENT)]
            rows.append(
                (
                    name.removeprefix("constant "),
                    f"{bars.mean():.1%}",
                    f"{rewards[bars, place].mean() - own[bars].mean():+.4f}",
                    f"{rank:.0%}",
                    f"{float(np.mean(chosen == int(name.removeprefix('constant ')))):.0%}",
                )
            )
    header = ("best window", "bars", "agent's regret there", "in high volatility", "agent chose it")
    text = (
        "The window that predicted best at each bar, known afterwards; 'in high volatility' is the share of these "
        "bars above the median volatility. Where it is 50 % for every window, volatility does not tell them apart."
    )
    return Section("Best window in hindsight", text, (), header, tuple(rows))


def _audit(run: LookbackRun, judgement: LookbackJudgement) -> Section:
    """Whether the reward's components are balanced, and follow what the leaders → followers strategy earns."""
    evaluation, place = judgement.evaluation, judgement.evaluation.place(AGENT)
    weights = [run.task.reward.components[name].weight_at(run.config.train.steps) for name in evaluation.components]
    components = pd.DataFrame(evaluation.parts[:, place] * weights, columns=list(evaluation.components))
    earned = _strategy(run, judgement).sum(axis=1)
    found_audit = audit(components, evaluation.rewards[:, place], earned, np.ones(len(earned), dtype=bool))
    signs = " ".join(found_audit.signs) or "No sign of trouble."
    text = (
        f"Correlation of the reward with what following the leaders of the chosen windows earns before costs: "
        f"{number(found_audit.with_equity, '+.2f')}. {signs}"
    )
    rows = tuple(
        (str(name), *map(number, values, (".0%", ".3f", "+.2f"))) for name, *values in found_audit.table.itertuples()
    )
    header = ("component", "share of the reward", "signal to noise", "correlation with the strategy")
    return Section("Reward components", text, (), header, rows)


def _strategy(run: LookbackRun, judgement: LookbackJudgement) -> Array:
    """(time, symbol) what following the leaders of the agent's windows earns by each symbol, before costs."""
    bars, own = judgement.evaluation.bars, judgement.evaluation.lookbacks[:, judgement.evaluation.place(AGENT)]
    engine = Engine(run.task.view.method, **run.task.view.options).fit(run.panel)
    weights = follower_weights(engine.many(bars, own), last_moves(run.panel)[bars], run.task.quantile)
    return np.asarray(np.nan_to_num(weights * fill_to_fill_returns(run.panel)[bars]))


def _anomalies(run: LookbackRun, judgement: LookbackJudgement) -> Section:
    """The agent's cumulated reward with the moments at which the lead–lag matrix changed more than it used to."""
    engine = Engine("ccf_lag1").fit(run.panel)
    ends, lookbacks = engine.windows(ANOMALY_BARS, STEP)
    scores = pd.Series(anomaly_score(row_mean(engine.many(ends, lookbacks))), run.panel.index[ends])
    own = judgement.evaluation.rewards[:, judgement.evaluation.place(AGENT)]
    # From 1 and scaled: the overlay reads relative changes, which a sum around 0 does not have.
    curve = pd.Series(1 + np.cumsum(own) / max(np.abs(own).sum(), 1e-12), judgement.times)
    section = anomaly_overlay(curve, scores[scores.index >= curve.index[0]]).section()
    text = section.text.replace("equity", "reward")
    return Section("Anomalies over reward", text, section.figures, section.header, section.rows)


def _concentration(run: LookbackRun, judgement: LookbackJudgement) -> list[Section]:
    """Of the choices, by asset and by pair: who leads in the chosen windows, who earns, and how concentrated it is."""
    bars, own = judgement.evaluation.bars, judgement.evaluation.lookbacks[:, judgement.evaluation.place(AGENT)]
    engine = Engine(run.task.view.method, **run.task.view.options).fit(run.panel)
    matrices = engine.many(bars, own)  # (time, leader, follower)
    symbols = run.panel.symbols
    # Leads alone: the matrix is antisymmetric, and its sum over all pairs would be 0.
    positive = np.nan_to_num(np.clip(matrices, 0, None))
    leads, earned = positive.sum(axis=2).mean(axis=0), _strategy(run, judgement).sum(axis=0)
    order = np.argsort(-leads)[:MOST_ROWS]
    rows = tuple((symbols[i], f"{leads[i] / leads.sum():.1%}", f"{earned[i]:+.4f}") for i in order)
    shares, gains = leads / leads.sum(), np.abs(earned) / max(np.abs(earned).sum(), 1e-12)
    text = (
        f"Share of the lead in the chosen windows, and what following them earned by symbol. Herfindahl "
        f"{herfindahl(shares):.3f} and Gini {gini(shares):.2f} of the lead; {herfindahl(gains):.3f} and "
        f"{gini(gains):.2f} of the absolute earnings."
    )
    assets = Section("Concentration by asset", text, (), ("symbol", "share of the lead", "earned"), rows)
    return [_choices(judgement), assets, _pairs(positive.mean(axis=0), _follower_returns(run, bars, positive), symbols)]


def _choices(judgement: LookbackJudgement) -> Section:
    """How concentrated the chosen windows are, and the reward over them."""
    evaluation, place = judgement.evaluation, judgement.evaluation.place(AGENT)
    earned = pd.Series(evaluation.rewards[:, place]).groupby(evaluation.lookbacks[:, place]).agg(["size", "sum"])
    earned = earned.sort_values("size", ascending=False)
    used, paid = (earned[name].abs() / max(earned[name].abs().sum(), 1e-12) for name in ("size", "sum"))
    rows = tuple((str(bars), f"{used[bars]:.1%}", f"{earned['sum'][bars]:+.4f}") for bars in earned.index[:MOST_ROWS])
    text = (
        f"Bars and reward by window. Herfindahl {herfindahl(used.to_numpy()):.3f} and Gini {gini(used.to_numpy()):.2f} "
        f"of the choices; {herfindahl(paid.to_numpy()):.3f} and {gini(paid.to_numpy()):.2f} of the absolute reward."
    )
    return Section("Concentration by choice", text, (), ("window", "bars", "reward"), rows)


def _follower_returns(run: LookbackRun, bars: Array, positive: Array) -> Array:
    """(leader, follower) mean of link · sign of the leader's last move · the follower's next fill-to-fill return."""
    moves, returns = last_moves(run.panel)[bars], fill_to_fill_returns(run.panel)[bars]
    earned = np.einsum("tij,ti,tj->ij", positive, np.sign(np.nan_to_num(moves)), np.nan_to_num(returns))
    return np.asarray(earned / max(len(bars), 1))


def _pairs(links: Array, earned: Array, symbols: tuple[str, ...]) -> Section:
    """The pairs with the strongest mean link over the chosen windows, and what each came to."""
    order = np.dstack(np.unravel_index(np.argsort(-links, axis=None), links.shape))[0][:MOST_ROWS]
    shares = links / max(links.sum(), 1e-12)
    rows = tuple(
        (f"{symbols[i]} → {symbols[j]}", f"{links[i, j]:.3f}", f"{shares[i, j]:.1%}", f"{earned[i, j] * 1e4:+.3f}")
        for i, j in order
    )
    heat = go.Heatmap(z=links, x=list(symbols), y=list(symbols), colorscale="Cividis", zmin=0.0)
    figure = style_figure(go.Figure(heat), "Mean link in the chosen windows, row leads column", 420)
    flat, gains = shares.ravel(), np.abs(earned).ravel() / max(np.abs(earned).sum(), 1e-12)
    text = (
        "Mean of each link where it is above 0, and what following that leader alone earned before costs, in "
        f"hundredths of a percent a bar. Herfindahl {herfindahl(flat):.3f} and Gini {gini(flat):.2f} of the links over "
        f"pairs; {herfindahl(gains):.3f} and {gini(gains):.2f} of the absolute earnings."
    )
    return Section("Concentration by pair", text, (figure,), ("pair", "mean link", "share", "earned"), rows)
