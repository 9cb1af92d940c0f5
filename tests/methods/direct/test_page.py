"""What the page of a direct policy says it learned, beside what was planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.build import build_panel
from pacesetter.evaluation.explain.explanation import explain_agent
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.methods.direct.page import TITLE, LearnedRelations
from pacesetter.policies.agent import AgentPolicy

SMALL = [
    *("task=fleet", "agent=direct", "data=synthetic", "data.symbols=5", "data.bars=700", "features.names=[return_1]"),
    *("data.unrelated_share=0", "agent.segments=4", "train.steps=192", "train.validate_every=192", "track.mlflow=off"),
    *("train.log_every=192", "track.tensorboard=off", "track.progress=false"),
]


def learned(runs: Path, strength: float) -> tuple[Path, LearnedRelations]:
    config = resolve([*SMALL, f"data.strength={strength}", f"runs={runs}"])
    run = train(config, console=Console(quiet=True)).run.folder
    return run, LearnedRelations.of(run, build_panel(config))


@pytest.fixture(scope="module")
def strong(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LearnedRelations]:
    return learned(tmp_path_factory.mktemp("strong"), 0.9)


def test_planted_relations_are_named_with_their_delay(strong: tuple[Path, LearnedRelations]) -> None:
    run, found = strong
    assert found.planted == 4
    assert found.recovered == 4
    assert f"{found.recovered} of {found.planted} planted relations" in found.sentence
    section = found.section()
    leaders = {row[0] for row in section.rows[:4]}
    assert len(leaders) == 1  # the strongest four are the one leader's
    assert StoredRun(run).sections()[0].title == TITLE


def test_a_direct_policy_is_explained_by_its_targets(strong: tuple[Path, LearnedRelations]) -> None:
    stored = StoredRun(strong[0])
    assert isinstance(stored.policy, AgentPolicy)
    found = explain_agent(
        stored.policy,
        stored.panel,
        first=stored.first,
        last=stored.first + 30,
        market=stored.task.market,
        bank=stored.bank(stored.panel),
        window_bars=stored.task.window_bars,
    )
    assert [each.title for each in found] == ["Action distribution"]


def test_noise_is_said_to_be_noise(tmp_path: Path) -> None:
    _, found = learned(tmp_path, 0.0)
    assert not found.relations
    assert "so it has no views" in found.sentence
    assert found.section().rows == ()
