"""Curiosity and potentials where exploring is what is missing: a payment at the end for a hidden state to be found.

    python benchmarks/exploration.py --tune 1 2 --file exploration.jsonl
    python benchmarks/exploration.py --play 421 422 423 424 425 --file exploration.jsonl [--record]

An episode of 100 bars pays 1 at its end where a position was held for 60 bars and then closed by an order, and nothing
else pays. Every bar of the way another order would have begun it again, and no order by itself ever arrives. A random
agent arrives in one episode of 2,000. *Dense* is the same world paid step by step. Agents are a fleet's PPO as
`cures.py` has it. States are the bars a position was held, 0 to 60; those that training came to are counted.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cures import METHODS, interval, last_of_each
from record import publish, table

from pacesetter.arrays import Array
from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.build.environments import feature_split
from pacesetter.build.fleet import build_market
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league.ladder import MARKETS
from pacesetter.market.ledger import Column, Flag
from pacesetter.rewards import REWARDS, component
from pacesetter.rewards.elementwise import has, maximum, minimum, where

BARS, EPISODE, STEPS, SYMBOLS, ENVS = 60, 100, 32_768, 4, 32
SPARSE, DENSE = "sparse", "dense"


def arrived(flags: Any, holding_bars: Any, state: Any) -> Any:
    """1 where an order closes a position that was held for so many bars, once an episode."""
    held, before = state
    now = where(has(flags, Flag.CLOSED) & (held >= BARS) & (before == 0.0), 1.0, 0.0)
    return now, (holding_bars, maximum(before, now))


def approached(holding_bars: Any, state: Any) -> Any:
    """The part of the way that no bar of the episode had come before."""
    (furthest,) = state
    further = maximum(furthest, minimum(holding_bars / BARS, 1.0))
    return further - furthest, (further,)


REWARDS.add("arrived", component(arrived, (0.0, 0.0)))
REWARDS.add("approached", component(approached, (0.0,)))
WORLDS = {
    SPARSE: ("+task.reward.components.arrived=1", "task.reward.paid=episode"),
    DENSE: ("+task.reward.components.arrived=1", "+task.reward.components.approached=1"),
}
MARKET = (
    *(*MARKETS["planted 0.4"], *METHODS["ppo"], "task=fleet", "task.retrain_share=0", f"train.envs={ENVS}"),
    *(f"data.symbols={SYMBOLS}", "data.bars=2400", "features.leadlag.lookback=null", "features.names=[return_1]"),
    *("agent.network=mlp_tiny", "agent.heads=[32]", f"task.episode_bars={EPISODE}", "~task.reward.components.pnl"),
)
NONE = "without"
CURES: dict[str, tuple[str, ...]] = {
    NONE: (),
    "curiosity": ("agent.extras.curiosity={share:0.1}",),
    "curiosity, 16 steps a round of its models, 1e-3": (
        "agent.extras.curiosity={share:0.1,rollout_rows:512,learning_rate:1e-3}",
    ),
    "counts": ("agent.extras.curiosity={share:0.1,model:counts}",),
    "counts, share 0.4": ("agent.extras.curiosity={share:0.4,model:counts}",),
    "potential learned": ("agent.extras.potential={kind:learned,weight:1.0,adaptive:false,learning_rate:1e-3}",),
    "potential holding, turned around": ("agent.extras.potential={kind:holding,weight:-1.0,adaptive:false}",),
}


class Visits:
    """How often each agent came to each number of bars held while it trained."""

    def __init__(self, market: Any) -> None:
        self.counts = np.zeros((len(market.symbols), BARS + 1), dtype=np.int64)
        self.agents = np.repeat(np.arange(len(market.symbols)), market.envs_each)
        self.step, market.batch.step = market.batch.step, self.count

    def count(self, actions: Array, *more: Any, **named: Any) -> Any:
        """Step the environments as the batch does, and note where they are."""
        step = self.step(actions, *more, **named)
        held = np.minimum(step.ledger[:, Column.HOLDING_BARS], BARS).astype(np.int64)
        np.add.at(self.counts, (self.agents, held), 1)
        return step


@torch.no_grad()
def judge(config: Any, panel: Any, fleet: Any) -> tuple[float, float]:
    """Share of episodes on fresh bars that arrive: by the most likely orders, and by drawn ones."""
    split = feature_split(config, panel)
    options = {"first_bar": split.start, "episode_bars": EPISODE, "starts": "random"}
    found = []
    for draw in (lambda policy: policy.mode(), lambda policy: policy.sample()):
        torch.manual_seed(1234)
        market = build_market(config, split.known, 16, **split.features(split.known), **options)
        seen, came = market.reset(), np.zeros(market.env_count)
        for _ in range(EPISODE):
            step = market.step(draw(fleet.evaluate(market.tables(seen))[0]))
            came, seen = came + step.objectives[:, 0].numpy(), step.observation
        found.append(float((came > 0).mean()))
    return found[0], found[1]


def play(world: str, cure: str, seed: int) -> dict[str, Any]:
    """One fleet: states visited while it trained, and how many episodes arrive."""
    start = time.process_time()
    config = resolve(last_of_each([*MARKET, *WORLDS[world], *CURES[cure], f"seed={seed}"]))
    panel = build_panel(config)
    learner: Any = build_learner(config, build_parts(config, panel))
    visits = Visits(learner.market)
    learner.learn(STEPS)
    counts = visits.counts
    certain, drawn = judge(config, panel, learner.fleet)
    figures = {
        "states": float((counts > 0).mean()),
        "agents": float((counts[:, -1] > 0).mean()),
        "deep": float(counts[:, -1].sum() / counts.sum()),
        "score": drawn,
        "certain": certain,
    }
    return {"world": world, "cure": cure, "seed": seed, **figures, "processor_seconds": time.process_time() - start}


HEADER = [
    *("agents", "states visited", "more", "agents that came so far", "bars there"),
    *("score", "more", "score, deterministic"),
]


def rows_of(lines: list[dict[str, Any]], world: str) -> list[list[str]]:
    """A row for each cure: means, and paired differences to the agents without it."""
    rows = []
    for cure in CURES:
        own = {line["seed"]: line for line in lines if (line["world"], line["cure"]) == (world, cure)}
        base = {line["seed"]: line for line in lines if (line["world"], line["cure"]) == (world, NONE)}
        if not own:
            continue

        def mean(name: str, own: dict[int, dict[str, Any]] = own) -> str:
            return f"{np.mean([line[name] for line in own.values()]):.1%}"

        pairs = [(own[seed], base[seed]) for seed in own if seed in base]
        states = interval([100 * (line["states"] / plain["states"] - 1) for line, plain in pairs])
        gained = interval([100 * (line["score"] - plain["score"]) for line, plain in pairs])
        more = ("", "") if cure == NONE else (states, gained)
        rows.append(
            [cure, mean("states"), more[0], mean("agents"), mean("deep"), mean("score"), more[1], mean("certain")]
        )
    return rows


def main() -> None:
    """Play what is not in the file yet, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tune", type=int, nargs="*", default=[])
    parser.add_argument("--play", type=int, nargs="*", default=[])
    parser.add_argument("--only", nargs="*", default=list(CURES))
    parser.add_argument("--worlds", nargs="*", default=list(WORLDS))
    parser.add_argument("--file", type=Path, default=Path("exploration.jsonl"))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    lines = [json.loads(text) for text in options.file.read_text().splitlines()] if options.file.is_file() else []
    options.file.parent.mkdir(parents=True, exist_ok=True)
    known = {(line["world"], line["cure"], line["seed"]) for line in lines}
    for seed in (*options.tune, *options.play):
        for world in options.worlds:
            for cure in CURES:
                if cure in options.only and (world, cure, seed) not in known:
                    lines.append(play(world, cure, seed))
                    print(json.dumps(lines[-1]), flush=True)
                    with options.file.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(lines[-1]) + "\n")
    parts = []
    for name, seeds in (("Reporting", options.play), ("Tuning", options.tune)):
        own = [line for line in lines if line["seed"] in seeds]
        tables = {world: rows for world in WORLDS if (rows := rows_of(own, world))}
        title = f"## {name} seeds {', '.join(map(str, seeds))}"
        parts += [f"{title}: {world}\n\n{table(HEADER, rows)}" for world, rows in tables.items()]
    publish(Path(__file__).stem, "\n\n".join(parts), "Exploring for a hidden state")


if __name__ == "__main__":
    main()
