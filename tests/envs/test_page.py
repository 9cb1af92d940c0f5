"""The guide to the environments keeps its word: its snippets run one after another, and its table is the code's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pacesetter.envs.curriculum import FIVE_STAGES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "environments.md").read_text(encoding="utf-8")


def test_snippets_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen: dict[str, Any] = {}
    for snippet in re.findall(r"```python\n(.*?)```", PAGE, re.S):
        exec(compile(snippet, "docs/environments.md", "exec"), seen)
    assert (tmp_path / "episode" / "ledger.parquet").exists()
    assert seen["masks"].shape == (7,)
    assert seen["env"].course.stage_log[-1]["stage"] == "calm bull, free"


def test_table_of_stages_is_that_of_the_code() -> None:
    for stage in FIVE_STAGES[:-1]:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| {stage.name} |"))
        shares = (stage.calmest_share, stage.clearest_share, stage.cleanest_share)
        assert ", ".join(f"{share:.0%}".replace("%", " %") for share in shares) in row
        assert (", ".join(stage.regimes) or "any") in row
        assert f"{stage.sharpe:g}" in row.rsplit("|", 2)[1]
        assert f"{stage.win_rate:.0%}".replace("%", " %") in row.rsplit("|", 2)[1]
