"""Tables of a run folder: read as they were written, and refused by their path where they are not."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from pacesetter.errors import RunError
from pacesetter.evaluation.fleet.agents import AGENTS, read_agents
from pacesetter.evaluation.report.compare import find_judged
from pacesetter.evaluation.report.tables import read_table
from pacesetter.methods.master.page import read_allocations
from pacesetter.runs import ALLOCATIONS

TABLE = pd.DataFrame({"a": [1.5, 2.0]})


def test_both_formats_give_the_table_back(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "table.csv", index=False)
    TABLE.to_parquet(tmp_path / "table.parquet")
    for path in tmp_path.iterdir():
        pd.testing.assert_frame_equal(read_table(path), TABLE)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_damaged_one_is_refused_by_its_path(tmp_path: Path, name: str, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(RunError, match=rf"{name} is missing or damaged \(\w+\); make it again"):
        read_table(tmp_path / name)


def test_what_a_run_left_half_written_is_refused(tmp_path: Path) -> None:
    for name in (ALLOCATIONS, AGENTS):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "evaluation.json").write_text("{}")
    for read in (read_allocations, read_agents, find_judged):
        with pytest.raises(RunError, match="is missing or damaged"):
            read(tmp_path)
