"""Every recorded result names the commit that made it, so that a page which new defaults falsify can be told."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path for path in (ROOT / "benchmarks" / "results").iterdir() if path.suffix in (".md", ".txt"))
COMMIT = re.compile(r"\bcommit `?[0-9a-f]{7,}")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_of_results_names_the_commit_that_made_it(page: Path) -> None:
    assert COMMIT.search(page.read_text(encoding="utf-8")), f"{page.name}: add 'Recorded at commit <hash>.'"


def test_pages_are_looked_at() -> None:
    assert len(PAGES) > 50
