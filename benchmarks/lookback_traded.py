"""What direct earns with the windows of a lookback agent, with fixed windows, with records, and without any.

    python benchmarks/lookback_traded.py fading 421 422 … --out cells.jsonl     # one line a seed; also state, noise
    python benchmarks/lookback_traded.py table --out cells.jsonl --record

The worlds and the agent of `lookback_state.py`: twelve symbols, 8,000 bars, the agent learns from the first 2,400.
Direct learns from the first 5,600 and trades the last 2,400, 2.5 bps a side, 15 % a symbol at most, no shorts. Its
group `windows` reads what the links in the window in force let expect of each symbol (`leadlag_expected`), and is
used where it pays on held-out blocks. Windows: the agent's, where it did not learn, and before that the one that its
episodes begin with, as `features.leadlag.lookback=RUN` shows them; one of 10, 20, 60, 120 and 250 bars at every bar;
cross-validation over 20, 60 and 250 bars. Of the fixed windows and of the records the best is chosen by hindsight of
the test bars, seed by seed, which flatters both; `chosen constant` is the one that paid most on the held-out blocks of
the training bars. Annualised Sharpe ratios of the account. No setting was chosen by them.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from lookback_agents import ENVS, LEARNER, OWN, TASK, market, trained
from lookback_state import STEPS, WORLDS
from record import publish, table

from pacesetter.envs.batch.bank import Bank
from pacesetter.envs.lookback.batch import lookback_config
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.statistics.metrics import metrics
from pacesetter.features import feature_table
from pacesetter.leadlag.lookback.baselines import CrossValidatedLookback, WindowScores
from pacesetter.leadlag.lookback.policy import ConstantLookback, FittedLookback, LookbackPolicy, StoredLookback, roll
from pacesetter.leadlag.signals import leadlag_features
from pacesetter.market.parameters import Costs, MarketParameters, Orders
from pacesetter.methods.direct.learner import DirectLearner
from pacesetter.methods.direct.options import USED, Direct
from pacesetter.panel import Panel
from pacesetter.policies.agent import AgentPolicy

BARS, LEARNED, TRAINED = 8_000, 2_400, 5_600
ROUNDS = 20
RULES = MarketParameters(
    costs=Costs(commission_bps=1.0, spread_bps=1.0, slippage_bps=1.0), orders=Orders(smoothing_bars=1)
)
CELLS = ("agent", "best constant", "chosen constant", "best record", "without")


def account(panel: Panel, windows: LookbackPolicy | None) -> dict[str, float]:
    """What direct earns on the test bars, and how surely the windows paid on the training bars."""
    extra = () if windows is None else leadlag_features("ccf_auc", windows)
    table, part = feature_table(panel, ("return_1", "gap"), extra), panel.rows(0, TRAINED)
    # Features are causal: those of the training bars are the first of all.
    known = replace(table, index=part.index, values=table.values[:, :TRAINED])
    bank, learned = (Bank.from_panels(*each, is_whole=True) for each in ((panel, table), (part, known)))
    more = () if windows is None else ("windows",)
    learner = DirectLearner(learned, RULES, Direct(dictionary=(*USED, *more)))
    learner.learn(ROUNDS * learner.round_steps)
    policy = AgentPolicy(learner.agent, "direct", "target", is_whole=True)
    played = backtest(policy, panel, first=TRAINED, market=RULES, bank=bank, window_bars=learner.policy.history_bars)
    figures = learner.fit_figures
    return {
        "sharpe": float(metrics(played)["sharpe"]),
        "utility": figures["utility"],
        "gain": figures.get("gain_windows", 0.0),
        "used": int((learner.policy.weights[learner.policy.places("windows")] != 0).sum()) if more else 0,
    }


def play(world: str, seed: int) -> dict[str, Any]:
    panel = market(BARS, seed, **WORLDS[world])
    config = lookback_config(**{name: value for name, value in TASK.items() if name != "problem"})
    part = panel.rows(0, LEARNED)
    agent = trained(str(LEARNER["algorithm"]), part, config, seed, ENVS, STEPS, **OWN)
    fitted = FittedLookback(agent, part.index[-1], ConstantLookback(config.windows.start))
    scores = WindowScores(config.windows.grid, config.view.method, 1, dict(config.view.options))
    chosen: dict[str, LookbackPolicy] = {"agent": fitted}
    chosen |= {f"record {bars}": CrossValidatedLookback(scores, bars) for bars in (20, 60, 250)}
    windows: dict[str, LookbackPolicy] = {name: StoredLookback(roll(each, panel)) for name, each in chosen.items()}
    windows |= {f"constant {bars}": ConstantLookback(bars) for bars in config.windows.grid}
    found = {name: account(panel, each) for name, each in windows.items()} | {"without": account(panel, None)}
    return {"played": found}


def figures(cell: dict[str, Any]) -> dict[str, float]:
    """Sharpe ratios of the cells of one seed."""
    played = cell["played"]
    constants = [name for name in played if name.startswith("constant ")]
    return {
        "agent": played["agent"]["sharpe"],
        "best constant": max(played[name]["sharpe"] for name in constants),
        "chosen constant": played[max(constants, key=lambda name: played[name]["utility"])]["sharpe"],
        "best record": max(each["sharpe"] for name, each in played.items() if name.startswith("record ")),
        "without": played["without"]["sharpe"],
    }


def show(cells: list[dict[str, Any]]) -> None:
    parts = []
    for world in dict.fromkeys(cell["world"] for cell in cells):
        played = sorted((cell for cell in cells if cell["world"] == world), key=lambda cell: int(cell["seed"]))
        known = [figures(cell) for cell in played]
        rows = [
            (cell["seed"], *(f"{own[name]:.2f}" for name in CELLS), f"{cell['played']['agent']['gain']:.1f}")
            for cell, own in zip(played, known, strict=True)
        ]
        said = []
        for other in CELLS[1:]:
            gaps = np.array([own["agent"] - own[other] for own in known])
            error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            ahead = f"above on {(gaps > 0).sum()} of {len(gaps)}"
            said.append(f"Agent minus {other}: {gaps.mean():+.2f} ± {error:.2f} (standard error), {ahead}.")
        parts.append(f"## {world}\n\n{table(('seed', *CELLS, 'gain of the windows'), rows)}\n\n{' '.join(said)}")
        print(world, *said, sep="\n    ")
    text = (__doc__ or "").split("\n\n", 2)[2].strip()
    publish("lookback_traded", "\n\n".join([text, *parts]), "What direct earns with a lookback agent's windows")


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    out = Path(sys.argv[sys.argv.index("--out") + 1]) if "--out" in sys.argv else Path("lookback_traded.jsonl")
    words = [word for word in words if word != str(out)]
    if words[0] == "table":
        sys.argv = [sys.argv[0], *(["--record"] if "--record" in sys.argv else [])]
        show([json.loads(line) for line in out.read_text().splitlines()])
        return
    for seed in map(int, words[1:]):
        start = time.process_time()
        found = play(words[0], seed) | {"cpu_seconds": time.process_time() - start}
        line = json.dumps({"world": words[0], "seed": seed} | found)
        with out.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)


if __name__ == "__main__":
    main()
