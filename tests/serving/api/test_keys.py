"""Keys: shown once, kept as hashes, with scopes and an end; and nothing of them in a log."""

from __future__ import annotations

import io
import json
import logging
import os
from datetime import UTC, datetime, timedelta

import pytest
import typer
from typer.testing import CliRunner

from pacesetter.cli.serve import register
from pacesetter.errors import ConfigError, RunError
from pacesetter.locks import hold
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.logs import REQUEST, log_to


def test_a_token_is_found_by_its_hash_alone(tmp_path):
    keys = Keys(tmp_path / "keys.json")
    token = keys.add("ops", ["read", "trade"], days=1)
    text = (tmp_path / "keys.json").read_text()
    assert token not in text
    assert (tmp_path / "keys.json").stat().st_mode & 0o077 == 0
    found = Keys(tmp_path / "keys.json").find(token)
    assert found is not None
    assert (found.name, found.scopes) == ("ops", ("read", "trade"))
    assert not found.is_expired(datetime.now(UTC))
    assert found.is_expired(datetime.now(UTC) + timedelta(days=1.01))
    assert keys.find(token + "x") is None
    assert keys.find("") is None
    assert keys.find("\ud800") is None


def test_a_key_file_is_never_readable_by_others(tmp_path, monkeypatch):
    modes, replace = [], os.replace

    def noting(source, target):
        modes.append(os.stat(source).st_mode & 0o777)
        replace(source, target)

    monkeypatch.setattr("os.replace", noting)
    Keys(tmp_path / "keys.json").add("ops", ["read"])
    assert modes == [0o600]


def test_two_writers_do_not_undo_each_other(tmp_path):
    one, other = Keys(tmp_path / "keys.json"), Keys(tmp_path / "keys.json")
    one.add("first", ["read"])
    other.add("second", ["read"])
    one.revoke("first")
    assert [key.name for key in Keys(tmp_path / "keys.json").keys] == ["second"]
    with hold(tmp_path, ".keys.json.lock"), pytest.raises(RunError, match="is in use by process"):
        one.add("third", ["read"])
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]


def test_a_revoked_key_is_gone(tmp_path):
    keys = Keys(tmp_path / "keys.json")
    token = keys.add("ops", ["read"])
    keys.revoke("ops")
    assert Keys(tmp_path / "keys.json").find(token) is None
    with pytest.raises(ConfigError, match="there is no key 'ops'"):
        keys.revoke("ops")


@pytest.mark.parametrize(
    ("name", "scopes", "days", "why"),
    [
        ("ops", ["raed"], 1, "did you mean 'read'"),
        ("ops", [], 1, "unknown"),
        (" ", ["read"], 1, "name"),
        ("x", ["read"], 0, "days"),
        ("x", ["read"], 1e9, "days"),
    ],
)
def test_keys_of_no_use_are_refused(tmp_path, name, scopes, days, why):
    with pytest.raises(ConfigError, match=why):
        Keys(tmp_path / "keys.json").add(name, scopes, days)


def test_nothing_starts_without_a_key_or_with_a_default(tmp_path):
    path = tmp_path / "keys.json"
    with pytest.raises(ConfigError, match="has no key"):
        Keys(path).check_startable()
    keys = Keys(path)
    keys.add("ops", ["admin"])
    keys.check_startable()
    (row,) = json.loads(path.read_text())
    path.write_text(json.dumps([row | {"expires": "2020-01-01T00:00:00+00:00"}]))
    with pytest.raises(ConfigError, match="only expired keys"):
        Keys(path).check_startable()
    for odd in (row | {"expires": "soon"}, row | {"expires": "2020-01-01"}, {"name": "ops"}, "ops"):
        path.write_text(json.dumps([odd]))
        with pytest.raises(ConfigError, match=r"keys\.json is not a key file"):
            Keys(path)
    known = "057ba03d6c44104863dc7361fe4578965d1887360f90a0895882e58a6248fc86"  # sha256 of "changeme"
    path.write_text(json.dumps([row | {"sha256": known}]))
    with pytest.raises(ConfigError, match="is a publicly known default; revoke it"):
        Keys(path).check_startable()
    path.write_text("{")
    for odd in (path, tmp_path):
        with pytest.raises(ConfigError, match="not a key file"):
            Keys(odd)


def test_a_file_that_cannot_be_written_is_refused():
    with pytest.raises(ConfigError, match=r"cannot be written .*give another --keys"):
        Keys("/proc/nowhere/keys.json").add("ops", ["read"])


def test_a_log_line_has_its_ids_and_no_secret(tmp_path):
    token = Keys(tmp_path / "keys.json").add("ops", ["read"])
    stream, logger = io.StringIO(), logging.getLogger("pacesetter")
    extra = {"key": token, "color_message": "in colours"}
    before = logger.handlers, logger.propagate, logger.level
    try:
        log_to(stream, {"run": "r1", "model": "m1"})
        REQUEST.set("q1")
        try:
            raise ValueError(f"Authorization: Bearer abc.def {token}")
        except ValueError:
            logging.getLogger("pacesetter.serving").exception("failed with %s", token, extra=extra)
    finally:
        logger.handlers, logger.propagate, logger.level = before
        REQUEST.set("")
    line = json.loads(stream.getvalue())
    assert (line["run"], line["model"], line["request"], line["level"]) == ("r1", "m1", "q1", "ERROR")
    assert line["logger"] == "pacesetter.serving"
    assert token not in stream.getvalue()
    assert "abc.def" not in stream.getvalue()
    assert line["message"] == "failed with [secret]"
    assert "color_message" not in line  # of uvicorn


def test_the_command_line_makes_lists_and_revokes(tmp_path):
    app = typer.Typer()
    register(app)

    def called(*words: str) -> str:
        result = CliRunner().invoke(app, ["keys", *words, "--keys", str(tmp_path / "keys.json")])
        assert result.exit_code == 0
        return result.output.strip()

    token = called("add", "ops", "--scopes", "read, admin,read")
    found = Keys(tmp_path / "keys.json").find(token)
    assert found is not None
    assert found.scopes == ("read", "admin")
    assert called("list").startswith("ops  read,admin  until ")
    called("revoke", "ops")
    assert called("list").endswith("has no key yet; create one: pacesetter keys add NAME")
