"""A record that cannot be back-dated: chained, stamped before its outcome, caught up with after a kill, checked."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from trading import FIRST, make_trader, small_panel
from typer.testing import CliRunner

from pacesetter.cli import app
from pacesetter.errors import ConfigError, RunError
from pacesetter.panel import Panel
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.trader.feeds import ReplayFeed
from pacesetter.serving.trader.paper import PaperTrader
from pacesetter.serving.trader.record import PAGE, RECORD, PublicRecord, read_record, verify_record


@pytest.fixture(scope="module")
def panel() -> Panel:
    return small_panel(FIRST + 12)


class LiveFeed(ReplayFeed):
    """Bars that count as a market's."""

    is_stored = False


def publishing(folder: Path, panel: Panel, is_live: bool = True, key: SigningKey | None = None) -> PaperTrader:
    feed = (LiveFeed if is_live else ReplayFeed)(panel, FIRST)
    trader = make_trader(folder, panel=panel, feed=feed)
    trader.record = PublicRecord(folder / "public", "run", is_live, key)
    return trader


def test_every_decision_is_appended_before_its_orders_are_sent_and_the_account_stands_beside_hold(
    panel: Panel, tmp_path: Path
) -> None:
    trader = publishing(tmp_path, panel)
    sent_at: list[int] = []
    submit = trader.desk.broker.submit
    trader.desk.broker.submit = lambda order: sent_at.append(len(read_record(tmp_path / "public"))) or submit(order)  # type: ignore[method-assign,func-returns-value]
    trader.run(8)
    lines = read_record(tmp_path / "public")
    assert len(lines) == 8
    assert sent_at
    assert all(count >= 1 for count in sent_at)
    assert [line.content["bar"] for line in lines] == [t.isoformat() for t in panel.index[FIRST : FIRST + 8]]
    hold = [sum(line.content["hold"].values()) for line in lines]
    closes = panel.close[FIRST : FIRST + 8]
    assert hold == pytest.approx((100_000 * (closes / closes[0]).mean(axis=1)).tolist())
    page = (tmp_path / "public" / PAGE).read_text()
    assert lines[-1].hash in page
    assert "http" not in page.replace("http-equiv", "")  # it loads nothing from elsewhere
    found = verify_record(tmp_path / "public", head=lines[3].hash)
    assert (found.count, found.is_whole, found.head) == (8, True, lines[-1].hash)
    trader.journal.close()


def test_stamps_later_than_the_next_bar_are_counted_and_a_replay_is_called_one(panel: Panel, tmp_path: Path) -> None:
    trader = publishing(tmp_path, panel, is_live=False)
    trader.run()
    found = verify_record(tmp_path / "public")
    assert (found.late, found.is_live) == (found.count - 1, False)  # stored bars are of the year 2000
    assert "a replay of stored bars" in found.describe()
    assert "a replay" in (tmp_path / "public" / PAGE).read_text()
    trader.journal.close()
    lines = read_record(tmp_path / "public")
    ahead = pd.Timestamp.now("UTC") + pd.Timedelta(days=1)
    assert all(line.content["stamped"] < ahead.isoformat() for line in lines)


def test_what_a_kill_kept_from_the_record_is_appended_at_the_next_start(panel: Panel, tmp_path: Path) -> None:
    trader = publishing(tmp_path, panel)
    trader.run(3)
    trader.record = None  # as if killed between journal and record
    trader.run(2)
    trader.journal.close()
    path = tmp_path / "public" / RECORD
    path.write_text(path.read_text() + '{"content": {"bar"')  # torn in the middle of a line
    again = publishing(tmp_path, panel)
    again.run(1)
    assert verify_record(tmp_path / "public").count == 6
    again.journal.close()


@pytest.mark.parametrize("change", ["equity", "drop", "swap", "append"])
def test_a_record_that_was_changed_is_refused(change: str, panel: Panel, tmp_path: Path) -> None:
    trader = publishing(tmp_path, panel)
    trader.run(5)
    trader.journal.close()
    path = tmp_path / "public" / RECORD
    rows = path.read_text().splitlines()
    if change == "equity":
        line = json.loads(rows[2])
        line["content"]["equity"] *= 1.01
        rows[2] = json.dumps(line)
    elif change == "drop":
        del rows[2]
    elif change == "swap":
        rows[1], rows[2] = rows[2], rows[1]
    else:
        rows.append(rows[-1])
    path.write_text("\n".join(rows) + "\n")
    with pytest.raises(RunError, match="is broken at line"):
        verify_record(tmp_path / "public")


def test_a_rewritten_record_has_not_the_head_that_was_noted_nor_the_signature(panel: Panel, tmp_path: Path) -> None:
    key, other = SigningKey("1" * 64), SigningKey("2" * 64)
    trader = publishing(tmp_path, panel, key=key)
    trader.run(4)
    trader.journal.close()
    noted = verify_record(tmp_path / "public", key=key)
    assert noted.signed == 4
    with pytest.raises(RunError, match="4 lines that this key did not sign"):
        verify_record(tmp_path / "public", key=other)
    forged = publishing(tmp_path / "forged", panel)
    forged.run(4)
    forged.journal.close()
    with pytest.raises(RunError, match="it is not the record that was noted"):
        verify_record(tmp_path / "forged" / "public", head=noted.head)
    with pytest.raises(RunError, match="did not sign"):
        verify_record(tmp_path / "forged" / "public", key=key)


def test_another_run_and_an_empty_folder_are_one_sentence(panel: Panel, tmp_path: Path) -> None:
    trader = publishing(tmp_path, panel)
    trader.run(2)
    trader.journal.close()
    with pytest.raises(ConfigError, match="is the record of run 'run'; give another folder"):
        PublicRecord(tmp_path / "public", "other", True)
    with pytest.raises(ConfigError, match=r"has no record.jsonl with decisions"):
        verify_record(tmp_path)


def test_a_record_is_published_and_checked_from_the_command_line(tmp_path: Path) -> None:
    public, folder = tmp_path / "public", tmp_path / "paper"
    words = ["paper", "cash", "data.source=synthetic", "data.symbols=3", "data.bars=200", "first=120", "bars=3"]
    words += [f"folder={folder}", f"halt_file={tmp_path / 'HALT'}", "broker=paper", "--publish", str(public)]
    assert CliRunner().invoke(app, words).exit_code == 0
    checked = CliRunner().invoke(app, ["journal", "verify", str(public)])
    assert "3 decisions from" in checked.output
    assert read_record(public)[-1].hash in checked.output
    refused = CliRunner().invoke(app, ["journal", "verify", str(public), "--head", "0" * 64])
    assert "it is not the record that was noted" in str(refused.exception)
    wrong = CliRunner().invoke(app, ["paper", "cash", "broker=ccxt", "broker.live=true"])
    assert "broker.notional_cap=1000" in str(wrong.exception)
    assert "unknown broker 'papr'" in str(CliRunner().invoke(app, ["paper", "cash", "broker=papr"]).exception)
