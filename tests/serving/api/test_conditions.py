"""What a request may ask a policy for: a goal, or weights of its objectives; and the same policy in a backtest.

Runs `policies.conditions`, `methods.objectives.page`, `methods.objectives.validator`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bundles import QUIET, Made, make
from served import NO_LIMITS, Served

from pacesetter.build.environments import build_table
from pacesetter.build.tasks.task import Stored
from pacesetter.errors import RunError
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.methods.objectives.page import choose_point, front_section, read_front
from pacesetter.policies.conditions import condition_entries
from pacesetter.policies.market_rows import market_bank

MARKET = [
    *("data=synthetic", "data.symbols=2", "data.bars=480", "task=fleet", "features.names=[return_1]", *QUIET),
    *("task.window_bars=2", "task.episode_bars=10", "task.retrain_share=0", "train.envs=4", "train.steps=128"),
    *("agent.network=mlp_tiny", "agent.heads=[8]", "agent.learning_starts=32", "agent.batch_size=16", "seed=2"),
    *("task.action=target", "train.shares=[0.7,0.1]"),
]


@pytest.fixture(scope="module")
def aiming(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("goal"), [*MARKET, "agent=sac", "agent.hindsight={k:4,goal:0.01}"])


@pytest.fixture(scope="module")
def weighing(tmp_path_factory: pytest.TempPathFactory) -> Made:
    own = ("agent=mosac", "agent.preferences=4", "agent.objectives={pnl:2,drawdown:1,cost:1}")
    return make(tmp_path_factory.mktemp("weights"), [*MARKET, *own])


PATIENT = replace(NO_LIMITS, seconds=60.0)  # the first answer waits for a compiler


def actions(served: Served, **asked: Any) -> list[float]:
    answer = served.client.post("/v1/decide", json=asked, headers={"Authorization": f"Bearer {served.tokens['trade']}"})
    assert answer.status_code == 200, answer.text
    return [line["action"] for line in answer.json()["decisions"]]


def status(served: Served, **asked: Any) -> int:
    headers = {"Authorization": f"Bearer {served.tokens['trade']}"}
    return int(served.client.post("/v1/decide", json=asked, headers=headers).status_code)


def test_a_goal_is_a_parameter_of_a_request(aiming: Made, tmp_path: Any) -> None:
    spec = aiming.bundle.model.spec
    assert spec.conditions == {"achieved_goal": (), "desired_goal": (0.01,)}
    served = Served(aiming, tmp_path, PATIENT)
    usual = actions(served)
    assert actions(served, goal=0.01) == usual == actions(served, goal=0.01, achieved=0.0)
    assert actions(served, goal=0.04) != usual
    assert actions(served, achieved=0.02) != usual
    assert actions(served) == usual  # what one request asks for is gone with it
    assert {status(served, goal=goal) for goal in (0.041, -0.01, "much", None)} == {422, 200}
    assert status(served, preference=[1.0]) == 422  # which this policy does not know


def test_weights_are_a_parameter_of_a_request(weighing: Made, tmp_path: Any) -> None:
    front = read_front(weighing.run.folder)
    chosen = front["points"][front["chosen"]]["preference"]
    spec = weighing.bundle.model.spec
    assert spec.conditions["preference"] == pytest.approx(tuple(chosen))
    served = Served(weighing, tmp_path, PATIENT)
    assert actions(served, preference=chosen) == pytest.approx(actions(served), abs=1e-6)
    one, other = actions(served, preference=[1.0, 0.0, 0.0]), actions(served, preference=[0.0, 0.0, 1.0])
    assert one != other
    assert actions(served, preference=[0.5, 0.0, 0.0]) == one  # shares of their sum
    assert [status(served, preference=weights) for weights in ([1.0], [0.0] * 3, [1.0, -1.0, 1.0])] == [422] * 3


def test_a_backtest_plays_the_chosen_point_of_the_front(weighing: Made) -> None:
    """Another point chosen is another backtest; the report and the dashboard show the front that it is chosen from."""
    folder, first = weighing.run.folder, len(weighing.panel) - 60
    front = read_front(folder)
    assert len(front["points"]) == 4
    assert 0 < front["share"] <= 1
    assert max(front["points"][0]["preference"]) <= 0.6 + 1e-6
    bank = market_bank(weighing.panel, build_table(weighing.config, weighing.panel))
    returns = []
    for place in (1, 3):
        choose_point(folder, place)
        policy = weighing.config.problem.policy(Stored(folder, weighing.config, weighing.panel))
        returns.append(backtest(policy, weighing.panel, first=first, bank=bank, window_bars=2).returns)
    assert not np.array_equal(*returns)
    section = front_section(folder)
    assert "Point 3 is chosen" in section.text
    assert len(section.rows) == 4
    with pytest.raises(RunError, match="has no point 9; choose 0 to 3"):
        choose_point(folder, 9)
    with pytest.raises(RunError, match="has no front"):
        read_front(folder.parent)
    stored = json.loads((folder / "front.json").read_text())
    assert stored["objectives"] == ["pnl", "drawdown", "cost"]


def test_returns_since_the_period_began_stand_where_nothing_is_asked() -> None:
    entries = condition_entries({"achieved_goal": (), "desired_goal": (0.02,)}, 0.005, 3)
    np.testing.assert_allclose(entries["achieved_goal"], np.full((3, 1), 0.005), rtol=1e-6)
    np.testing.assert_allclose(
        condition_entries({"preference": (0.4, 0.6)}, 0.0, None)["preference"], [0.4, 0.6], rtol=1e-6
    )
