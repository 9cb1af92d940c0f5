"""The first pages of the pipeline: known numbers of known bars."""

from __future__ import annotations

import pytest

from pacesetter.jobs.pipeline.bars_stage import summary
from pacesetter.panel import Panel


def test_summary_has_known_numbers(panel_of_closes):
    header, rows = summary(*panel_of_closes)
    row = dict(zip(header, rows[0], strict=True))
    assert row["symbol"] == "A"
    assert row["bars"] == 3
    assert row["drawdown"] == "-50.0%"
    assert row["regime now"] == "–"


@pytest.fixture
def panel_of_closes():
    import numpy as np
    import pandas as pd

    index = pd.date_range("2020-01-01", periods=3, tz="UTC")
    panel = Panel.from_fields(index, ["A"], {"close": np.array([[1.0], [2.0], [1.0]])})
    return panel, np.full((3, 1), -1)
