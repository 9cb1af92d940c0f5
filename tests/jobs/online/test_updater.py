"""A planted change of regime is recovered from, a stationary market is not harmed, and a kill loses nothing.

Runs `jobs.online.session`, `jobs.online.starts`, `jobs.online.swaps`.
"""

from __future__ import annotations

import io
import json
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from pacesetter.build import best_fleet, build_panel, build_table, stored_plan
from pacesetter.errors import ConfigError, DataError, RunError
from pacesetter.jobs.online import updater as module
from pacesetter.jobs.online.session import print_updates, update_online
from pacesetter.jobs.online.updater import OnlineConfig, OnlineUpdater
from pacesetter.learning.fleet.storage import load_fleet
from pacesetter.learning.state import tensors_hash
from tests.faults.deaths import END, outlive_apart
from tests.jobs.online.swaps import FIRST, SMALL, killed_at, swap, swapped

CHANGE = 480


@pytest.fixture(scope="module")
def panel(run):
    return build_panel(stored_plan(run)).rows(0, 780)


@pytest.fixture(scope="module")
def changed(panel):
    """The same bars, with sentiment that means the opposite from bar `CHANGE` on."""
    mood = np.array(panel["sentiment"])
    mood[CHANGE:] = 1 - mood[CHANGE:]
    return panel.with_field("sentiment", mood)


def frozen(updater: OnlineUpdater, panel) -> np.ndarray:
    """Returns of the fleet as it was, from the first new bar on."""
    table = build_table(updater.run_config, panel)
    return updater.returns(best_fleet(updater.origin), panel, table, FIRST - 1)


def test_most_of_the_loss_of_a_regime_change_is_recovered(run, changed):
    updater = OnlineUpdater(run, SMALL)
    updater.begin(changed, FIRST)
    updates = updater.advance(changed)
    kept, online = frozen(updater, changed), np.array(updater.history["earned"])
    before = kept[: CHANGE - FIRST].mean()
    last = slice(-120, None)
    loss, regained = before - kept[last].mean(), online[last].mean() - kept[last].mean()
    assert loss > 0
    print(f"{regained / loss:.0%} of the loss is recovered in the last 120 bars")
    assert regained > 0.5 * loss
    alarmed = [update.bar for update in updates if "earned" in update.drift]
    assert alarmed
    assert alarmed[0] > CHANGE
    assert "swap" in [update.kind for update in updates]
    assert max(update.forgotten for update in updates if update.kind == "swap") > 0  # of the old regime, as reported


@pytest.mark.proof
def test_a_stationary_market_is_not_harmed(run, panel):
    updater = OnlineUpdater(run, SMALL)
    updater.begin(panel, FIRST)
    updates = updater.advance(panel)
    kept, online = frozen(updater, panel), np.array(updater.history["earned"])
    difference = online - kept
    noise = difference.std() / len(difference) ** 0.5
    assert difference.mean() > -2 * noise - 1e-12
    assert not any("earned" in update.drift for update in updates)
    assert all(update.forgotten <= SMALL.largest_forgetting for update in updates if update.kind == "swap")


def test_it_resumes_where_it_was_killed_and_rolls_back(run, changed, monkeypatch):
    short, small = changed.rows(0, 600), replace(SMALL, steps=256)
    whole = OnlineUpdater(run, small)
    whole.begin(short, FIRST)
    whole.advance(short)
    assert whole.run is not None
    part = OnlineUpdater(run, small)
    part.begin(short, FIRST)
    part.advance(short.rows(0, 540))

    def killed(path, content):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(module, "write_atomic", killed)  # of the state, after the weights
        with pytest.raises(KeyboardInterrupt):
            part.advance(short)
    resumed = OnlineUpdater(part.run.folder)
    assert resumed.bars == 540
    resumed.advance(short)
    assert tensors_hash(resumed.fleet.state_dict()) == tensors_hash(whole.fleet.state_dict())
    assert [event["kind"] for event in resumed.events()] == [event["kind"] for event in whole.events()]
    worth = [io.StringIO() for _ in range(2)]
    for each, written in zip((whole, resumed), worth, strict=True):
        print_updates(each, [], short, Console(file=written, width=150))
    assert worth[0].getvalue() == worth[1].getvalue()  # beside the first fleet, not the latest of the resumed run
    swaps = [event for event in resumed.events() if event["kind"] == "swap"]
    event = resumed.roll_back()
    assert event["from"] == swaps[-1]["number"]
    assert tensors_hash(resumed.fleet.state_dict()) != swaps[-1]["weights_hash"]
    assert resumed.events()[-1]["kind"] == "rollback"
    manifest = json.loads((resumed.run.folder / "manifest.json").read_text())
    assert manifest["weights_hash"] == tensors_hash(resumed.fleet.state_dict())


def in_force(folder):
    """Hashes of the fleet that is resumed, of the one that others read, and of the one in the manifest."""
    resumed = OnlineUpdater(folder)
    fleets = (resumed.fleet, best_fleet(folder))
    hashes = [tensors_hash(fleet.state_dict()) for fleet in fleets]
    return [*hashes, resumed.run.manifest["weights_hash"]]


def test_a_rollback_killed_at_any_write_leaves_the_swap_or_the_rollback_whole(run, panel, tmp_path, monkeypatch):
    updater = swapped(run, panel.rows(0, FIRST), 2)
    hashes = [event.get("weights_hash") for event in updater.events()]
    ends = []
    for write in (0, 1, 4, 5):  # the state, the weights that others read, the manifest; the last is beyond all
        folder = tmp_path / str(write)
        shutil.copytree(updater.run.folder, folder)
        with killed_at(write, monkeypatch):
            OnlineUpdater(folder).roll_back()
        is_back = json.loads((folder / "online.json").read_text())["events"][-1]["kind"] == "rollback"
        assert in_force(folder) == [hashes[1] if is_back else hashes[2]] * 3, f"killed at write {write}"
        ends.append(is_back)
    assert ends[0] is False
    assert ends[-1] is True


def test_a_beginning_killed_after_its_state_was_written_is_resumed(run, panel, tmp_path, monkeypatch):
    shutil.copytree(run, tmp_path / "runs/origin")
    known, number = panel.rows(0, FIRST), 0
    while not list(tmp_path.glob("runs/*/online.json")):  # the first write after which there is a state
        with killed_at(number, monkeypatch):
            OnlineUpdater(tmp_path / "runs/origin", SMALL).begin(known, FIRST)
        number += 1
    (state,) = tmp_path.glob("runs/*/online.json")
    assert not (state.parent / "checkpoints/best/fleet.json").exists()  # killed before what others read
    assert in_force(state.parent) == [tensors_hash(best_fleet(run).state_dict())] * 3


def test_a_swap_after_a_rollback_is_gone_back_from_to_what_the_rollback_left(run, panel):
    updater = swapped(run, panel.rows(0, FIRST), 2)
    updater.roll_back()
    left = tensors_hash(updater.fleet.state_dict())
    assert left == updater.events()[1]["weights_hash"]
    swap(updater, 3)
    assert updater.run.manifest["update"] == {"number": 3, "kind": "swap"}  # which its bundle tells the trader
    updater.roll_back()
    assert updater.run.manifest["update"] == {"number": 3, "kind": "rollback", "from": 3}
    assert in_force(updater.run.folder) == [left] * 3
    # What was swapped in stays as it was.
    assert tensors_hash(load_fleet(updater.run.folder / "fleets/00002").state_dict()) != left


def test_each_rollback_goes_one_swap_further_back(run, panel):
    updater = swapped(run, panel.rows(0, FIRST), 3)
    _, *hashes = [event.get("weights_hash") for event in updater.events()]
    assert updater.swaps().last == "swap"
    assert updater.roll_back()["from"] == 3
    updater._store({"number": 4, "bar": FIRST, "kind": "keep"})
    assert (updater.swaps().last, updater.swaps().undone) == ("rollback", [3])
    swap(updater, 5)
    assert updater.swaps().last == "swap"
    for number, left in ((5, hashes[1]), (2, hashes[0]), (1, tensors_hash(best_fleet(run).state_dict()))):
        assert OnlineUpdater(updater.run.folder).roll_back()["from"] == number
        assert in_force(updater.run.folder) == [left] * 3
    with pytest.raises(RunError, match="has no swap to go back from: all 4 are undone"):
        OnlineUpdater(updater.run.folder).roll_back()
    with pytest.raises(RunError, match="was never updated"):
        OnlineUpdater(run).roll_back()
    updater._store({"number": 5, "bar": FIRST, "kind": "rollback", "from": 1})  # of a swap that there was not
    with pytest.raises(RunError, match="the events of"):
        updater.roll_back()


def live(run, panel, config, folder):
    """Begin in a copy of the run or resume there, and write what came of it."""
    begun = sorted(folder.glob("*/online.json"))
    if not (folder / run.name).exists():
        shutil.rmtree(folder / "copy", ignore_errors=True)  # of a life that ended while it copied
        shutil.copytree(run, folder / "copy").rename(folder / run.name)
    updater = OnlineUpdater(begun[-1].parent if begun else folder / run.name, config)
    updater.begin(panel, FIRST)
    updater.advance(panel)
    events = [{key: event[key] for key in event if key != "seconds"} for event in updater.events()]
    told = {"events": events, "hash": tensors_hash(updater.fleet.state_dict())}
    (folder / END).write_text(json.dumps(told))


@pytest.mark.proof
@pytest.mark.timeout(3600)
def test_thirty_kills_of_the_online_learner_end_in_the_same_fleet(run, changed, tmp_path, sized):
    short, config = changed.rows(0, 600), replace(SMALL, steps=128, every_bars=30)
    died, runs, end = outlive_apart(partial(live, run, short, config), tmp_path, sized(30), "online")
    updates = len(json.loads(end)["events"]) - 1
    print(f"online: {died} kills over {runs} runs of {updates} updates, all with the same fleet")


def test_what_cannot_be_updated_is_refused(run, panel, tmp_path):
    with pytest.raises(DataError, match="online updates need 210 bars before the first one"):
        OnlineUpdater(run, SMALL).begin(panel, 100)
    with pytest.raises(DataError, match="bar 781 is beyond the end of the source, which has 780 bars"):
        OnlineUpdater(run, SMALL).begin(panel, 781)
    with pytest.raises(ConfigError, match="frozen_bars=419, but only 418 bars before the first update"):
        OnlineUpdater(run, replace(SMALL, frozen_bars=419)).begin(panel, FIRST)
    with pytest.raises(RunError, match="has not begun"):
        OnlineUpdater(run, SMALL).advance(panel)
    with pytest.raises(RunError, match="is not a run folder"):
        OnlineUpdater(tmp_path)
    with pytest.raises(ConfigError, match="every_bars"):
        OnlineConfig(every_bars=0)
    for name in ("sample", None):
        with pytest.raises(ConfigError, match=f"data={name} names another source"):
            update_online(run, {"data": name})


def test_a_session_updates_on_what_the_source_has_and_says_what_it_was_worth(run):
    told = io.StringIO()
    options = {"every_bars": 60, "recent_bars": 180, "judged_bars": 30, "steps": 64, "frozen_bars": 60}
    updater = update_online(run, options, first=930, console=Console(file=told, width=150))
    assert updater.updates == 1
    assert "without updates" in told.getvalue()
    assert "forgotten: fall of the Sharpe ratio on the frozen set" in " ".join(told.getvalue().split())
    again = update_online(updater.run.folder, console=Console(file=told, width=150))
    assert again.updates == 1  # nothing new
    with pytest.raises(ConfigError, match="which keeps its options"):
        update_online(updater.run.folder, {"steps": 5})
