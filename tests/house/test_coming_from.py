"""The snippets of docs/coming_from.md run, and their last line gives what the page says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pandas as pd
import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "coming_from.md").read_text()


def snippet(library: str) -> str:
    section = PAGE.partition(f"\n## {library}\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)[0]


def last_value(code: str) -> object:
    """Run the code; the value of its last line, an expression."""
    tree = ast.parse(code)
    assert isinstance(tree.body[-1], ast.Expr)
    names: dict[str, object] = {}
    exec(compile(ast.Module(tree.body[:-1], []), "page", "exec"), names)
    return eval(compile(ast.Expression(tree.body[-1].value), "page", "eval"), names)


@pytest.mark.parametrize("library", ["FinRL", "skfolio"])
def test_a_frame_and_weights_of_another_library_are_played(library):
    assert -10 < float(last_value(snippet(library))) < 10


def test_a_rule_with_a_stop_trades():
    trades = last_value(snippet("freqtrade"))
    assert isinstance(trades, pd.DataFrame)
    assert len(trades) > 1


def test_a_stable_baselines_model_is_judged():
    pytest.importorskip("stable_baselines3")
    assert "No edge found: PPO" in str(last_value(snippet("Stable-Baselines3")))
