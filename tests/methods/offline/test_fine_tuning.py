"""A fleet that learns on in another market: better there, and what it forgot is reported."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from pacesetter.build import read_plan
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.methods.offline.fine_tuning import TransferRow, fine_tune


def test_fine_tuning_reports_gain_and_forgetting(run, toy, tmp_path):
    own = ("agent.n_steps=8", "agent.batch_size=64", "train.envs=16", "train.steps=256", "seed=5")
    told = io.StringIO()
    steps = ("train.validate_every=128", "train.checkpoint_every=0", f"runs={tmp_path}")
    tuned = fine_tune(run, [*toy[1:], *own, *steps], Console(file=told, width=150))
    report = json.loads((tuned.folder / "fine_tuning.json").read_text())
    assert report["from"] == run.name
    rows = {row["market"]: TransferRow(**row) for row in report["rows"]}
    assert set(rows) == {"new", "old"}
    assert rows["new"].change == rows["new"].mean_after - rows["new"].mean_before
    assert 0 <= rows["old"].worse <= 1
    shown = " ".join(told.getvalue().split())
    for heading in ("Annualised Sharpe ratios", "Sharpe of all", "mean Sharpe", "agents that fell"):
        assert heading in shown


def test_a_network_of_another_width_is_taken_as_it_is(toy, tmp_path):
    market = [text for text in toy if not text.startswith(("agent.", "task=fleet"))]
    own = ("train.envs=4", "train.steps=64", "train.validate_every=64", "agent.n_steps=16", "agent.batch_size=16")
    sizes = ("agent.network=mlp", "agent.network_options={width:8,layers:1}", "agent.heads=[8]")
    quiet = Console(quiet=True)
    first = train(resolve(["task=fleet", *market, *own, *sizes, f"runs={tmp_path}"]), console=quiet).run.folder
    tuned = fine_tune(first, [*market, *own, f"runs={tmp_path}"], quiet)
    assert read_plan(tuned).agent.options["network_options"] == {"width": 8, "layers": 1}


def test_a_market_without_its_symbols_is_refused(run, tmp_path):
    with pytest.raises(ConfigError, match="has none of the"):
        fine_tune(run, ["data=sample", "features.names=[return_1]", f"runs={tmp_path / 'runs'}"])
    assert not (tmp_path / "runs").exists()
