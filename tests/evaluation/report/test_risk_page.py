"""What a report says of a sized account: its base where no view was found, and what each limit cost it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pacesetter.evaluation.report import risk_page
from pacesetter.evaluation.report.risk_page import RISK, risk_section, views_sentence
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train

STATED = (
    *("task=fleet", "agent=direct", "+preset=planted", "data.symbols=5", "data.groups=1", "data.bars=900"),
    *("agent.segments=8", "train.steps=768", "train.validate_every=768", "track.mlflow=off", "track.tensorboard=off"),
    *("risk.target_volatility=0.1", "risk.base=inverse_volatility", "risk.tracking_error=0.04"),
)


@pytest.fixture(scope="module")
def make_run(tmp_path_factory: pytest.TempPathFactory):
    def made(*overrides: str) -> StoredRun:
        folder: Path = tmp_path_factory.mktemp("sized")
        config = resolve([*STATED, *overrides, f"runs='{folder}'", "track.progress=false"])
        return StoredRun(train(config, console=Console(file=io.StringIO())).run.folder)

    return made


def test_each_limit_that_acted_is_named_and_played_without(make_run, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("data.strength=0.8", "market.position_cap=0.25")
    own = run.play()
    section = risk_section(run, own)
    accounts = [row[0] for row in section.rows]
    assert section.title == RISK
    assert accounts[:2] == ["direct", "its base alone"]
    assert "without market.position_cap=0.25" in accounts
    assert "position cap at" in section.text
    assert "around its base, inverse volatility, on average" in section.text
    assert "Expected volatility after limits" in section.text
    short = {"volatility": 0.1, "volatility_21_days": float("nan")}  # of a test of some days
    monkeypatch.setattr(risk_page, "metrics", lambda result: short)
    assert risk_page.realised_sentence(own).endswith(", realised 10.0%.")


def test_where_no_view_was_found_the_portfolio_is_its_base(make_run) -> None:
    run = make_run("data.strength=0.0", "market.position_cap=0.5", "seed=4")
    own = run.play()
    assert not own.orders.any()
    section = risk_section(run, own)
    assert section.rows[0][1:] == section.rows[1][1:]
    said = "No view was found: the portfolio is its base, inverse volatility sized to 10% volatility a year"
    assert said in section.text
    assert run.sizing is not None
    assert views_sentence(own, replace(run.sizing, base="cash")) == "No view was found: the portfolio is cash."
