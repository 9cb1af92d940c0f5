"""The table of allocations on paper: the sentence with its interval, a collapse, and who is chosen."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from pacesetter.methods.master.page import (
    allocation_sentence,
    allocations_section,
    better_run,
    read_allocations,
)


def stored(folder: Path, cash: float = 0.3, fleet: float = 0.5) -> Path:
    """An `allocations.csv` with known figures."""
    names = ["master", "fleet", "equal_weight of proposals", "risk_parity of proposals"]
    figures = {"sharpe": [1.5, fleet, 0.7, 1.0], "growth": [0.1] * 4, "cash": [cash] * 4, "positions": [4.0] * 4}
    figures |= {"turnover": [0.2] * 4, "difference": [np.nan, 1.5 - fleet, 0.8, 0.5]}
    figures |= {"low": [np.nan, 0, 0.1, 0.2], "high": [np.nan, 2, 1.5, 0.9]}
    folder.mkdir(exist_ok=True)
    pd.DataFrame(figures, index=names).rename_axis("policy").to_csv(folder / "allocations.csv")
    return folder


def test_a_sentence_tells_the_interval_above_the_best_fixed_allocation_and_a_collapse(tmp_path: Path) -> None:
    told = allocation_sentence(read_allocations(stored(tmp_path)))
    assert told == (
        "the master's annualised Sharpe ratio is +1.50, a difference of +0.50 (+0.20 to +0.90) to risk_parity of "
        "proposals, the best fixed allocation; the fleet's own orders have +0.50; no collapse into cash or one symbol"
    )
    collapsed = allocation_sentence(read_allocations(stored(tmp_path, cash=0.97)))
    assert collapsed.endswith("it has collapsed: mean share of cash 0.97 must be <= 0.95")
    section = allocations_section(tmp_path)
    assert section.rows[0] == ("master", "+1.50", "+10.0%", "97%", "4.0", "20.0%", "–", "–", "–")
    assert told.split(",")[0] in allocations_section(stored(tmp_path)).text


def test_the_better_on_the_validation_years_is_chosen(tmp_path: Path) -> None:
    fleet = tmp_path / "fleet"
    assert better_run(fleet, stored(tmp_path / "master")) == tmp_path / "master"
    assert better_run(fleet, stored(tmp_path / "master", fleet=1.6)) == fleet
