"""`pacesetter dashboard`: what it hands to the page."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pacesetter.cli import dashboard as command
from pacesetter.dashboard import server
from pacesetter.dashboard.settings import Settings
from pacesetter.errors import ConfigError, RunError
from pacesetter.serving.api.keys import Keys


@pytest.fixture
def served(monkeypatch, tmp_path):
    """Call the command in a folder with no runs, without a server; gives what the page would be shown."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    calls: list[tuple] = []
    monkeypatch.setattr(server, "serve", lambda *given: calls.append(given))
    app = typer.Typer()
    command.register(app)

    def call(*words: str) -> tuple[Settings, str, int, str]:
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == 0
        settings, host, port, _ = calls[-1]
        return settings, host, port, result.output

    return call


def test_it_listens_on_loopback_and_looks_at_runs(served):
    settings, host, port, output = served()
    assert (settings.runs, settings.journal, host, port) == (Path("runs"), "", "127.0.0.1", 8501)
    assert output == ""


def test_a_folder_that_is_not_there_is_refused_unless_a_book_is_to_be_shown(served):
    with pytest.raises(RunError, match=r"folder elsewhere does not exist; give the folder of your runs, or create one"):
        served("elsewhere")
    assert served("elsewhere", "--journal", "sqlite:///other.db")[0].runs == Path("elsewhere")


def test_another_address_is_warned_of(served):
    assert "can be reached by others" in served("--host", "0.0.0.0")[3]


def test_the_paper_traders_journal_is_found_where_it_lies(served, tmp_path):
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "journal.db").touch()
    assert served()[0].journal == "sqlite:///paper/journal.db"
    assert served("--journal", "sqlite:///other.db")[0].journal == "sqlite:///other.db"


def test_only_a_living_admin_key_may_halt(served):
    assert served()[0].admin is None
    reader = Keys("keys.json").add("Bob", ["read"])
    assert served()[0].admin is None
    admin, ended = Keys("keys.json").add("Ada", ["admin"]), Keys("keys.json").add("Eve", ["admin"], days=1e-9)
    named = served()[0].admin
    assert [named(token) for token in (admin, reader, ended, "guess")] == ["Ada", None, None, None]


def test_the_kill_switch_is_the_traders_file(served, tmp_path):
    switch = served("--halt-file", "STOP")[0].switch
    assert not switch.is_engaged()
    switch.engage("drill")
    assert (tmp_path / "STOP").is_file()
    assert switch.reason() == "drill"


def test_an_unknown_language_is_refused(served):
    with pytest.raises(ConfigError, match="no texts"):
        served("--language", "xx")


def test_a_missing_streamlit_is_refused_with_what_to_install(monkeypatch):
    monkeypatch.setattr(server, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pacesetter\[dash\]"):
        server.serve(Settings())
