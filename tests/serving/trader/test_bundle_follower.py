"""A trader that follows its store changes its policy between two bars, never to one fitted on them, and says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from pacesetter.errors import ConfigError, RunError
from pacesetter.serving.bundle.store import Store
from pacesetter.serving.journal import tables
from pacesetter.serving.trader.bundle_follower import follow_store
from pacesetter.serving.trader.session import PaperConfig, open_session

OWN = ("hashes.json", "signature.json")  # written again with each bundle
FIRST = 434  # bar of the first decision: training ends before it


def add(made: Any, store: Store, end: int | None = None, update: Any = None, **features: Any) -> None:
    """Add the bundle again, as if fitted until bar `end` in an online `update`, and with changed features."""
    files = {name: data for name, data in made.bundle.files.items() if name not in OWN}
    training = made.bundle.manifest["training"] | {"update": update}
    files["manifest.json"] = _changed(files["manifest.json"], training=training)
    if end is not None:
        files["manifest.json"] = _changed(files["manifest.json"], fitted_until=made.panel.index[end].isoformat())
    files["features.json"] = _changed(files["features.json"], **features)
    store.add("toy", files)


def _changed(data: bytes, **changed: Any) -> bytes:
    return json.dumps(json.loads(data) | changed).encode()


def store_of(made: Any, folder: Path, *ends: int | None) -> Store:
    store = Store(folder)
    for end in ends:
        add(made, store, end)
    return store


def opened(store: Store, folder: Path, **options: Any) -> Any:
    own = {"folder": str(folder / "paper"), "halt_file": str(folder / "HALT"), "follow": True, "first": FIRST}
    return open_session(str(store.folder), PaperConfig(**(own | options)))


def told(trader: Any) -> list[str]:
    return [row["message"] for row in trader.journal.rows(tables.events) if row["kind"] == "policy"]


def deciders(trader: Any) -> list[tuple[Any, ...]]:
    return [(row["time"], row["message"]) for row in trader.journal.rows(tables.events) if row["kind"] == "policy"]


def test_an_update_and_a_roll_back_take_over_at_the_next_bar(made: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path / "store", None)
    trader = opened(store, tmp_path, first=None)
    trader.run(2)
    first = trader.desk.policy
    assert told(trader) == []
    add(made, store)
    trader.run(1)
    assert told(trader) == ["0002-toy takes over from 0001-toy"]
    assert trader.desk.policy is not first
    store.rollback()
    result = trader.run(2)
    assert told(trader)[1:] == ["0001-toy takes over from 0002-toy, which was rolled back"]
    assert result.bars == 5
    trader.journal.verify()


def test_a_bundle_waits_for_the_first_bar_it_was_not_fitted_on(made: Any, tmp_path: Path) -> None:
    store, index = store_of(made, tmp_path / "store", None), made.panel.index
    trader = opened(store, tmp_path)
    trader.run(2)
    add(made, store, FIRST + 5)
    trader.run(4)
    assert trader.desk.policy.name == "0001-toy"  # at its own last bar
    trader.run(2)
    assert deciders(trader) == [
        (index[FIRST + 2], f"0002-toy waits until {index[FIRST + 5]}, the last bar it was fitted on"),
        (index[FIRST + 6], "0002-toy takes over from 0001-toy"),
    ]


def test_the_newest_bundle_that_was_not_fitted_on_the_bar_decides(made: Any, tmp_path: Path) -> None:
    ends = (None, FIRST - 1, FIRST + 1, FIRST + 2, len(made.panel) - 1)
    trader = opened(store_of(made, tmp_path / "store", *ends), tmp_path)
    names = []
    for _ in range(4):
        trader.run(1)
        names.append(trader.desk.policy.name)
    assert names == ["0002-toy", "0002-toy", "0003-toy", "0004-toy"]


def test_a_bundle_that_was_rolled_back_does_not_return_while_a_later_one_waits(made: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path, None, None)
    store.rollback()
    add(made, store, FIRST + 1)
    succession = follow_store(store.folder, None, False)
    assert succession is not None
    succession.begin(made.panel.index[FIRST])
    assert succession.name == "0001-toy"
    assert store.followed == ["0001-toy", "0003-toy"]


def test_a_killed_trader_resumes_with_the_policy_in_force_and_follows_on(made: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path / "store", None, FIRST + 1, FIRST + 3)
    opened(store, tmp_path).run(3)  # and it is gone, without a word
    add(made, store, FIRST + 4)
    add(made, store, len(made.panel) - 1)
    (tmp_path / "whole").mkdir()
    resumed, whole = opened(store, tmp_path), opened(store, tmp_path / "whole")
    assert resumed.desk.policy.name == "0002-toy"
    assert (resumed.run(4).new_bars, whole.run(7).new_bars) == (4, 7)
    assert [row for row in told(resumed) if "takes" in row] == [row for row in told(whole) if "takes" in row]
    assert len(told(resumed)) == len(set(told(resumed)))  # nothing is told twice
    for table in (tables.decisions, tables.orders, tables.fills, tables.positions):
        assert resumed.journal.rows(table) == whole.journal.rows(table)


def test_a_book_is_not_resumed_by_a_policy_fitted_on_its_next_bars(made: Any, tmp_path: Path) -> None:
    store = store_of(made, tmp_path / "store", None)
    opened(store, tmp_path).run(2)
    add(made, store, FIRST + 5)
    trader = opened(store, tmp_path, follow=False, first=None)
    with pytest.raises(RunError, match="0002-toy was fitted until"):
        trader.run(1)


def test_the_journal_names_drift_gain_and_forgetting_of_the_update(made: Any, tmp_path: Path) -> None:
    store, at = store_of(made, tmp_path, None), made.panel.index[-1]
    succession = follow_store(store.folder, None, False)
    assert succession is not None
    drifted = {"number": 3, "kind": "swap", "drift": ["earned", "shown"], "gain": 0.0002, "forgotten": -0.25}
    sentences = {
        "update 3, drift of returns and features, gain +2.00e-04 a bar, forgotten -0.25": drifted,
        "update 4, no new drift, gain +2.00e-04 a bar, forgotten -0.25": drifted | {"number": 4, "drift": []},
        "roll-back of update 4": {"kind": "rollback", "from": 4},
    }
    for number, (sentence, update) in enumerate(sentences.items(), 2):
        add(made, store, update=update)
        assert succession.find_current(at)[1] == [f"{number:04d}-toy takes over from {number - 1:04d}-toy: {sentence}"]


def test_bars_a_year_may_change_with_a_longer_file(made: Any, tmp_path: Path) -> None:
    store, at = store_of(made, tmp_path, None), made.panel.index[-1]
    succession = follow_store(store.folder, None, False)
    assert succession is not None
    usual = made.bundle.features.bars_per_year
    add(made, store, bars_per_year=usual * 1.001)
    assert succession.find_current(at)[1] == ["0002-toy takes over from 0001-toy"]
    add(made, store, bars_per_year=usual * 7)
    assert succession.find_current(at)[1] == ["0003-toy cannot take over from 0002-toy: it reads other features"]


def test_a_bundle_that_does_not_fit_leaves_the_policy_as_it_is(made: Any, fleet: Any, tmp_path: Path) -> None:
    store, at = store_of(made, tmp_path, None), pd.Timestamp.max.tz_localize("UTC")
    succession = follow_store(store.folder, None, False)
    assert succession is not None
    assert succession.find_current(at) == (None, [])
    add(fleet, store)
    bundle, sentences = succession.find_current(at)
    assert bundle is None
    assert sentences[0].startswith("0002-toy cannot take over from 0001-toy: it")
    assert succession.find_current(at) == (None, [])  # told once


def test_only_a_store_is_followed_and_nothing_is_written(made: Any, tmp_path: Path) -> None:
    config = PaperConfig(folder=str(tmp_path / "paper"), halt_file=str(tmp_path / "HALT"), follow=True)
    with pytest.raises(ConfigError, match="is not one; give the store"):
        open_session(str(made.folder), config)
    assert list(tmp_path.iterdir()) == []
