"""Yardsticks on the validation set: the oracle is there where a truth is known, and earns what was planted."""

from __future__ import annotations

from dataclasses import replace

from pacesetter.build import build_panel
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.methods.offline.beside import beside_words, sharpe_beside

PLANTED = ("+preset=planted", "task=fleet", "data.symbols=5", "data.groups=1", "data.bars=600", "data.strength=0.8")


def test_the_oracle_stands_beside_where_a_truth_is_known():
    config = resolve([*PLANTED, "features.leadlag.lookback=null"])
    panel = build_panel(config)
    figures = sharpe_beside(config, panel)
    assert list(figures) == ["hold", "ridge", "lasso", "oracle"]
    assert figures["oracle"] > max(figures["hold"], 1.0)
    words = beside_words(config, replace(panel, truth=None))
    assert words.startswith("beside, Sharpe on the validation set: hold ")
    assert "oracle" not in words
