"""A scan: each method, lookback, universe and fold is one study of bars before and in the fold, and is kept."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.build import build_panel
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.workers import Launcher
from pacesetter.lab import scan as scan_module
from pacesetter.lab.scan import ScanPlan, scan

MARKET = ("data=synthetic", "data.symbols=6", "data.bars=400", "data.groups=2", "data.strength=0.9", "lag.draws=20")
PLAN = ScanPlan(("ccf_peak",), (60,), universes=2, folds=2)
QUIET = Console(file=io.StringIO())


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    folder = tmp_path_factory.mktemp("scan")
    return scan(PLAN, MARKET, folder=folder, console=QUIET), folder


def test_every_cell_is_studied_on_the_bars_of_its_fold(table: tuple[pd.DataFrame, Path]) -> None:
    rows, folder = table
    assert len(rows) == 2 * 2
    assert rows.groupby(["method", "universe", "fold"]).size().eq(1).all()
    assert rows["symbols"].tolist() == [3] * 4
    assert rows["bars"].between(95, 101).all()  # a hundred bars of each fold, less those without a fill
    assert np.isfinite(rows["net_bps"]).all()
    assert (folder / "scan.csv").is_file()
    assert "t over cells" in (folder / "report.html").read_text(encoding="utf-8")


def test_a_cell_sees_nothing_behind_its_fold() -> None:
    panel = build_panel(resolve(MARKET))
    cells = PLAN.cells(Path("x"), MARKET, panel)
    first, second = cells[0].panel(panel), cells[1].panel(panel)
    assert first.index[0] == panel.index[140]
    assert first.index[-1] == panel.index[299]
    assert second.index[0] == panel.index[240]
    assert second.index[-1] == panel.index[-1]
    assert first.symbols == panel.symbols[:3]


def test_what_is_known_is_not_studied_again(table: tuple[pd.DataFrame, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    rows, folder = table
    monkeypatch.setattr(scan_module, "_row", None)
    again = scan(PLAN, MARKET, folder=folder, console=QUIET)
    pd.testing.assert_frame_equal(again, rows)


@pytest.mark.proof
def test_processes_give_the_same_rows(table: tuple[pd.DataFrame, Path], tmp_path: Path) -> None:
    rows, _ = table
    pd.testing.assert_frame_equal(scan(PLAN, MARKET, Launcher(workers=2), tmp_path, QUIET), rows)


def test_scans_without_room_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give --universes 2 or fewer"):
        scan(ScanPlan(("ccf_peak",), (60,), universes=3), MARKET, folder=tmp_path, console=QUIET)
    with pytest.raises(ConfigError, match="longer than the 200 bars before the first fold"):
        scan(ScanPlan(("ccf_peak",), (300,)), MARKET, folder=tmp_path, console=QUIET)
    with pytest.raises(ConfigError, match="needs a method"):
        ScanPlan((), (60,))
    with pytest.raises(ConfigError, match="did you mean"):
        ScanPlan(("ccf_peek",), (60,))
