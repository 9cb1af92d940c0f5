"""The README's first screen: what a newcomer needs, in this order, and the output that its lines really print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST_SCREEN = (
    *("Pacesetter finds which assets lead others", "pip install", "make demo", "make test", "import pacesetter as ps"),
    *(
        "leadership       low",
        "No edge found: Sharpe ratio of hold",
        "pictures/demo.png",
        "| **+18.5 %** |",
        "no edge found |",
    ),
    *("Nothing here is investment advice.", "beside its peers", "benchmarks/README.md", "## The flow and its packages"),
)


def test_what_a_newcomer_needs_comes_first() -> None:
    places = [README.index(part) for part in FIRST_SCREEN]
    assert places == sorted(places)


def test_the_five_lines_print_what_the_page_says() -> None:
    code, said = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()  # type: ignore[union-attr]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    lines = [" ".join(line.split()) for line in printed.getvalue().splitlines()]
    for line, shown in zip(lines, said.splitlines(), strict=True):
        assert line.startswith(" ".join(shown.rstrip("…").split()))


def figures(line: str) -> list[str]:
    return re.findall(r"[+−-]?\d+\.\d+", line)


def test_figures_of_the_worlds_are_those_of_the_record() -> None:
    page = (ROOT / "benchmarks" / "results" / "worlds.md").read_text(encoding="utf-8")
    record = page.split("\n## ")[1]  # all seeds; their single figures follow
    header, *rows = [line.split(" | ") for line in record.splitlines() if line.startswith(("| market", "| planted"))]
    rows += [line.split(" | ") for line in record.splitlines() if re.match(r"\| (th|re|pr|fa|pe|im)", line)]
    assert len(rows) == 8
    for name in ("direct", "lasso_sized"):
        shares = [int(re.search(r"\((-?\d+)%\)", row[header.index(name)]).group(1)) for row in rows]  # type: ignore[union-attr]
        assert f"{min(shares)} to {max(shares)} %" in README, name


def test_figures_of_the_demo_are_those_of_its_page() -> None:
    page = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8").replace("_sized", "")
    for policy in ("direct", "ridge", "hold"):
        line = next(line for line in README.splitlines() if re.match(rf"\| \**{policy}[*,]* .*%", line))
        row = next(row for row in page.splitlines() if re.match(rf"\| {policy} \| .*%", row))
        assert len(figures(line)) == 4, policy
        assert set(figures(line)) <= set(figures(row))


def test_counts_are_those_of_the_code() -> None:
    from pacesetter.leadlag.estimators.estimator import ESTIMATORS

    assert len(list(ESTIMATORS)) == 13
    assert "thirteen estimators" in README
