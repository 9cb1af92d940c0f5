"""Ablations: presets as files, paired differences by hand, one small ablation played once and then read."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from pacesetter.build import build_panel
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.lab.league import cell as cells
from pacesetter.lab.league import estimate, ladder, windows
from pacesetter.lab.league.ablation import Ablation, ablate, ablation_names, ablation_table, load_ablation
from pacesetter.lab.league.cell import cell_key

MARKET = ("+preset=planted", "data.bars=900", "data.strength=0.8", "features.leadlag.lookback=null", ladder.SHARES)
PRESET = """
about: two sizes of a network
markets: [planted 0.8]
base: [agent=ppo_small, task.action=discrete, train.steps=1024, train.envs=128, train.validate_every=0]
variants:
  narrow: ["agent.heads=[4]"]
"""


@pytest.fixture
def preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(ladder, "MARKETS", {"planted 0.8": MARKET})
    path = tmp_path / "sizes.yaml"
    path.write_text(PRESET)
    return path


def test_hours_are_told_before_anything_is_played(preset: Path, tmp_path: Path) -> None:
    asked = [f"ablate={preset}", f"ablate.folder={tmp_path / 'out'}", "ablate.seeds=1+2", "ablate.estimate=true"]
    left = ablate(asked, Console(quiet=True)).set_index("entrant")
    assert left["cells"].to_dict() == {"full": 2, "narrow": 2}  # yardsticks do not train
    assert (left["seconds"] > 0).all()
    assert not (tmp_path / "out").exists()


def test_several_ablations_are_one_command(
    preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, console: Console
) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(PRESET)
    monkeypatch.setattr(estimate, "_probe", lambda cell: 1800.0)
    asked = [f"ablate={preset}+{other}", f"ablate.folder={tmp_path / 'out'}", "ablate.seeds=1", "ablate.estimate=true"]
    left = ablate(asked, console)
    assert left["ablation"].tolist() == [str(preset)] * 2 + [str(other)] * 2
    assert "All 2 ablations: 2.0 hours" in console.file.getvalue()  # type: ignore[attr-defined]
    folders = [part.place for part in Ablation(f"{preset}+{other}", folder=str(tmp_path / "out")).parts()]
    assert folders == [tmp_path / "out" / "sizes", tmp_path / "out" / "other"]
    with pytest.raises(ConfigError, match="there is no ablation 'curiositi'"):
        ablate([f"ablate={preset}+curiositi", "ablate.seeds=1"], console)


def test_kept_cells_take_no_time(preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = Ablation(str(preset), "1", folder=str(tmp_path / "out")).cells(load_ablation(str(preset)))
    monkeypatch.setattr(estimate, "_probe", lambda cell: 3600.0)
    known = cell_key(cells[0], cells[0].config, build_panel(cells[0].config))
    (tmp_path / "out" / "cells").mkdir(parents=True)
    (tmp_path / "out" / "cells" / f"{known}.json").write_text("{}")
    (left,) = estimate.estimate_cells(cells)
    assert (left.entrant, left.cells, left.hours) == ("narrow", 1, 1.0)
    assert estimate.estimate_table([left, left], 2).rows[-1] == ("all", "2", "", "2.00")
    assert "1.0 hours with 2 workers" in str(estimate.estimate_table([left, left], 2).title)


@pytest.mark.proof
def test_an_ablation_is_played_once_and_then_read(
    preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [f"ablate={preset}", f"ablate.folder={tmp_path / 'out'}", "ablate.seeds=1"]
    table = ablate(asked, Console(quiet=True)).set_index("variant")
    assert list(table.index) == ["full", "narrow", "oracle_sized", "lasso_sized", "ridge_sized", "hold"]
    assert (tmp_path / "out" / "report.html").is_file()
    monkeypatch.setattr(cells, "train", lambda *_, **__: pytest.fail("a kept cell was trained again"))
    again = ablate(asked, Console(quiet=True)).set_index("variant")
    assert again["mean"].equals(table["mean"])


WINDOWS = """
about: a smoothed reward
markets: [windows]
judged: windows
base:
  - task=lookback
  - agent=ppo
  - agent.network=mlp_tiny
  - agent.heads=[8]
  - agent.n_steps=8
  - agent.batch_size=32
  - train.envs=4
  - train.steps=64
  - train.validate_every=0
  - task.windows.longest=24
  - task.windows.grid=[10,16,24]
  - task.windows.seen=[6,12,24]
  - task.reward.components={signal:1.0,switching:0.05}
variants:
  smoothed: ["task.reward.components.signal={weight:1.0,smoothing_steps:5}"]
"""


@pytest.mark.proof  # every cell composes its configuration several times
def test_windows_are_judged_by_the_reward_of_the_full_method(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ("data=synthetic", "data.symbols=3", "data.bars=300", "train.shares=[0.5,0.1]")
    monkeypatch.setattr(ladder, "MARKETS", {"windows": small})
    (tmp_path / "smooth.yaml").write_text(WINDOWS)
    asked = [f"ablate={tmp_path / 'smooth.yaml'}", f"ablate.folder={tmp_path / 'out'}", "ablate.seeds=1"]
    table = ablate(asked, Console(quiet=True)).set_index("variant")
    assert list(table.index) == ["full", "smoothed", *windows.WINDOW_YARDSTICKS]
    assert table.loc["optimum", "mean"] == pytest.approx(1.0)
    assert table.loc["best constant", "mean"] == pytest.approx(0.0)
    assert table["mean"].max() == table.loc["optimum", "mean"]
    assert (tmp_path / "out" / "report.html").is_file()
    monkeypatch.setattr(windows, "train", lambda *_, **__: pytest.fail("a kept cell was trained again"))
    again = ablate(asked, Console(quiet=True)).set_index("variant")
    assert again["mean"].equals(table["mean"])


def test_differences_are_paired_by_seed() -> None:
    scores = {"full": (1.0, 3.0, 5.0), "less": (0.5, 2.4, 4.6), "oracle_sized": (6.0, 6.0, 6.0)}
    rows = [
        {"market": "m", "entrant": name, "seed": seed, "sharpe": value, "entropy": 1.0, "traded": 2.0, "exposure": 0.1}
        for name, values in scores.items()
        for seed, value in enumerate(values)
    ]
    table = ablation_table(pd.DataFrame(rows)).set_index("variant")
    assert table.loc["less", "gap"] == pytest.approx(-0.5)
    assert table.loc["less", "gap_half_width"] == pytest.approx(4.3027 * 0.1 / 3**0.5, rel=1e-3)
    assert bool(table.loc["oracle_sized", "is_yardstick"])
    assert pd.isna(table.loc["oracle_sized", "p_adjusted"])


@pytest.mark.parametrize("name", ablation_names())
def test_shipped_presets_compose_on_their_markets(name: str) -> None:
    preset = load_ablation(name)
    for cell in {cell.entrant: cell for cell in Ablation(name, seeds="1").cells(preset)}.values():
        if cell.overrides is not None:
            assert resolve([*cell.market_overrides, *cell.overrides]).train.steps > 0
    compared = len(preset.variants) + len(preset.others) + sum(map(len, preset.sweeps.values()))
    assert len(preset.overrides()) == 1 + compared


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("ablate=featurs", "did you mean 'features'"),
        ("ablate.variants=[SAK]", "has no variant 'SAK'"),
        ("ablate.markets=[planted 0.5]", "no market 'planted 0.5'"),
        ("ablate=none.yaml", "cannot be read as an ablation"),
    ],
)
def test_a_misspelt_ablation_is_refused(asked: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        ablate([f"ablate.folder={tmp_path}", asked], Console(quiet=True))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("about: x\nbase: []", "needs variants or sweeps"),
        ("about: x\nbase: []\nvariant: {}", "did you mean 'variants'"),
    ],
)
def test_a_preset_that_compares_nothing_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_ablation(str(tmp_path / "bad.yaml"))
