"""A trader that follows its store changes its policy between two bars, and the journal says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pacesetter.errors import ConfigError
from pacesetter.serving.bundle.store import Store
from pacesetter.serving.journal import tables
from pacesetter.serving.trader.session import PaperConfig, open_session
from pacesetter.serving.trader.succession import following

OWN = ("hashes.json", "signature.json")  # written again with each bundle


def store_of(made: Any, folder: Path, count: int) -> Store:
    store = Store(folder)
    for _ in range(count):
        store.add("toy", {name: data for name, data in made.bundle.files.items() if name not in OWN})
    return store


def told(trader: Any) -> list[str]:
    return [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "policy"]


def test_an_update_and_a_roll_back_take_over_at_the_next_bar(made: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path / "store", 1)
    options = {"folder": str(tmp_path / "paper"), "halt_file": str(tmp_path / "HALT"), "follow": True}
    trader = open_session(str(store.folder), PaperConfig(**options))
    trader.run(2)
    first = trader.desk.policy
    assert told(trader) == []
    store_of(made, store.folder, 1)
    trader.run(1)
    assert told(trader) == ["0002-toy takes over from 0001-toy"]
    assert trader.desk.policy is not first
    store.rollback()
    result = trader.run(2)
    assert told(trader)[1:] == ["0001-toy takes over from 0002-toy"]
    assert result.bars == 5
    trader.journal.verify()


def test_a_bundle_that_does_not_fit_leaves_the_policy_as_it_is(made: Any, fleet: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path, 1)
    succession = following(store.folder, made.bundle, None, False)
    assert succession is not None
    assert succession.look() == (None, "")
    store_of(fleet, store.folder, 1)
    policy, sentence = succession.look()
    assert policy is None
    assert sentence.startswith("0002-toy cannot take over from 0001-toy: it")
    assert succession.look() == (None, "")  # told once


def test_only_a_store_is_followed(made: Any, tmp_path: Path) -> None:
    config = PaperConfig(folder=str(tmp_path), halt_file=str(tmp_path / "HALT"), follow=True)
    with pytest.raises(ConfigError, match="is not one; give the store"):
        open_session(str(made.folder), config)
