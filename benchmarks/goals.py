"""Hindsight replay: time of a draw, size of a full buffer, and what it adds to SAC on the planted market.

python benchmarks/goals.py [--record]

Success is measured on fresh bars, those of the validation set, with the same drawn goals with and without.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from record import publish, seconds, table

from pacesetter.build import build_learner, build_panel, build_parts
from pacesetter.build.environments import feature_split
from pacesetter.build.fleet import build_market
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.experience.replay import FOLLOWING
from pacesetter.learning.learner import Between
from pacesetter.methods.goals.goals import HindsightConfig, read_hindsight
from pacesetter.methods.goals.hindsight import REACHED, HindsightReplay
from pacesetter.methods.goals.market import GoalMarket

SYMBOLS, ENVS, CAPACITY, EPISODE = 143, 16, 2_000, 100
SEEDS, STEPS, EVERY = (1, 2), 4_096, 2_048
MARKET = (
    *("+preset=planted", "data.bars=2400", "features.leadlag.lookback=null", "task=fleet", "agent=sac"),
    *("task.action=target", "agent.network=mlp_tiny", "agent.heads=[32]", "agent.gamma=0.9", "train.envs=8"),
    *("agent.buffer_size=800", "agent.learning_starts=256", "agent.learning_rate=0.003"),
)
GOALS = HindsightConfig()


def full_replay() -> HindsightReplay:
    """A replay of 143 symbols, every step of it filled, with rows as fleet SAC adds them."""
    replay, count = HindsightReplay(CAPACITY, SYMBOLS, ENVS, GOALS), SYMBOLS * ENVS
    seen = {"index": torch.zeros(count, 2, dtype=torch.int64), "position": torch.zeros(count, 7)}
    seen |= {"portfolio": torch.zeros(count, 7), "achieved_goal": torch.rand(count, 1) * 0.04}
    seen["desired_goal"] = torch.rand(count, 1) * 0.04
    row = {f"{part}.{name}": entry for part in ("observation", "following") for name, entry in seen.items()}
    row |= {"actions": torch.zeros(count, 1), "objectives": torch.zeros(count, 1)}
    row |= {name: torch.zeros(count) for name in ("rewards", "log_probs")}
    row["terminated"] = torch.zeros(count, dtype=torch.bool)
    for step in range(CAPACITY):
        replay.add(row | {"ended": torch.full((count,), step % EPISODE == EPISODE - 1)})
    return replay


def buffer_rows() -> list[list[Any]]:
    replay = full_replay()
    tensors = [*replay.entries.values(), replay.episode, replay.firsts, replay.lasts]
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    rows = CAPACITY * ENVS * SYMBOLS
    return [
        ["draw of 2 rows of each of 143 symbols (286), ms", 1e3 * seconds(lambda: replay.sample(2), 20)],
        ["draw of 256 rows of one of its symbols, ms", 1e3 * _one_symbol()],
        ["draw of 256 rows of each of 143 symbols (36,608), ms", 1e3 * seconds(lambda: replay.sample(256), 20)],
        ["bytes of a row", float(size / rows)],
        [f"full buffer of {CAPACITY:,} steps × {ENVS} × {SYMBOLS} ({rows / 1e6:.1f} M rows), GB", size / 1e9],
        ["rows of each of 143 symbols that fit into 2 GB", float(2e9 / (size / rows) / SYMBOLS)],
    ]


def _one_symbol() -> float:
    one = HindsightReplay(6_250, 1, ENVS, GOALS)  # 100,000 rows
    for step in range(6_250):
        goal = torch.rand(ENVS, 1)
        row = {"observation.desired_goal": goal, "following.desired_goal": goal, "following.achieved_goal": goal}
        row |= {"observation.position": torch.zeros(ENVS, 7), "following.position": torch.zeros(ENVS, 7)}
        one.add(row | {"rewards": torch.zeros(ENVS), "ended": torch.full((ENVS,), step % EPISODE == EPISODE - 1)})
    return seconds(lambda: one.sample(256), 50)


# ---- what it adds ---------------------------------------------------------------------------------------------------


class FreshBars:
    """Bars of the validation set, with the same starts and goals for all who are judged on them."""

    def __init__(self, config: Any, panel: Any, envs_each: int = 8) -> None:
        split, self.bars, goals = (
            feature_split(config, panel),
            config.trading.episode_bars,
            read_hindsight(config.agent.options),
        )
        assert goals is not None
        options = {"first_bar": split.start, "episode_bars": self.bars, "starts": "random"}
        self.market = GoalMarket(
            build_market(config, split.known, envs_each, **split.features(split.known), **options), goals
        )

    @torch.no_grad()
    def judge(self, fleet: Any) -> tuple[float, float, float]:
        """Share of episodes that end within the tolerance of their goal, mean reward, mean end; None is cash."""
        market = self.market
        torch.manual_seed(1234)
        seen, rewards = market.reset(), []
        for _ in range(self.bars):
            cash = -torch.ones(market.env_count, 1)
            step = market.step(cash if fleet is None else fleet.evaluate(market.tables(seen))[0].mode())
            rewards.append(float(step.rewards.mean()))
            seen = step.observation
        name, place = REACHED[market.options.kind]
        achieved = step.finals[name.removeprefix(FOLLOWING)][:, place : place + 1]
        reached = market.options.is_reached(achieved, step.finals["desired_goal"])
        return float(reached.float().mean()), float(np.mean(rewards)), float(achieved.mean())


def trained(config: Any, panel: Any, fresh: FreshBars) -> list[tuple[float, float, float]]:
    """What the fleet comes to after every so many steps of each symbol."""
    learner: Any = build_learner(config, build_parts(config, panel))
    curve: list[tuple[float, float, float]] = []

    def look() -> None:
        if learner.step and learner.step % EVERY == 0:
            state = torch.get_rng_state()
            curve.append(fresh.judge(learner.fleet))
            torch.set_rng_state(state)

    learner.learn(STEPS, Between(look))
    return [*curve, fresh.judge(learner.fleet)]


def added_rows() -> list[list[Any]]:
    found: dict[int, list[Any]] = {0: [], 4: []}
    cash = []
    for seed in SEEDS:
        configs = {k: resolve([*MARKET, f"seed={seed}", f"agent.hindsight={{k:{k}}}"]) for k in found}
        panel = build_panel(configs[0])
        fresh = FreshBars(configs[0], panel)
        cash.append(fresh.judge(None))
        for k, config in configs.items():
            found[k].append(trained(config, panel, fresh))
    rows = []
    for k, curves in found.items():
        curve = np.array(curves)  # (seed, time, figure)
        name = "without hindsight (k = 0)" if k == 0 else f"with hindsight (k = {k})"
        for place in range(curve.shape[1]):
            figures = [_spread(curve[:, place, figure], form) for figure, form in ((0, "%"), (1, ""), (2, "%"))]
            rows.append([name, f"{(place + 1) * EVERY:,}", *figures])
    rows.append(["cash", "–", *(_spread(np.array(cash)[:, at], form) for at, form in ((0, "%"), (1, ""), (2, "%")))])
    return rows


def _spread(values: Any, form: str) -> str:
    low, high = values.min(), values.max()
    if form == "%":
        return f"{values.mean():.1%} ({low:.1%} to {high:.1%})"
    return f"{values.mean():.3f} ({low:.3f} to {high:.3f})"


def main() -> None:
    body = table(["buffer", "value"], buffer_rows())
    body += (
        f"\n\nFleet of ten, planted market (strength 0.8), seeds {SEEDS}, target positions, episodes of {EPISODE} "
        "bars, without lead–lag features: agents see their own returns alone, in which nothing is planted. Goals are "
        "drawn from 0 to 4 %. Success: the episode ends within 0.1 % of its goal, on the validation set, with the same "
        "starts and goals for all. Mean and range over seeds.\n\n"
    )
    header = ["agent", "steps of each symbol", "success", "reward a bar", "growth of an episode"]
    body += table(header, added_rows())
    publish("goals", body, "Goals and hindsight")


if __name__ == "__main__":
    main()
