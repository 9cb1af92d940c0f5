"""A server begins with stored bars; what is not a panel of them is refused by its path."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pacesetter.compiled import LateKernel
from pacesetter.envs.batch import loops
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import rolling, technical
from pacesetter.market import batch as market_batch
from pacesetter.serving.api.admission import ApiSettings
from pacesetter.serving.api.keys import Keys
from pacesetter.serving.api.runtime import ReportedAccount, Runtime
from pacesetter.serving.api.server import _open_socket, load_history, rehearse


def test_stored_bars_are_enough_to_decide_on(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    load_history(runtime, made.panel.with_field("more", made.panel.close).save(tmp_path / "bars.parquet"))
    assert not runtime.history.waiting()
    assert len(runtime.decide(ReportedAccount(1e5)).lines) == 3


@pytest.mark.parametrize("kind", ["made", "fleet", pytest.param("master", marks=pytest.mark.proof)])
def test_after_a_rehearsal_a_decision_compiles_nothing(kind: str, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(kind)
    rehearse(Runtime(made.bundle))
    compiled = kernels()
    assert all(compiled[name] for name in ("_mean", "account_rows"))
    runtime = Runtime(made.bundle)
    runtime.feed(made.panel.rows(0, -1))
    assert runtime.decide(ReportedAccount(1e5), made.panel.rows(-1, None)).lines
    assert kernels() == compiled


def kernels() -> dict[str, int]:
    """Name -> signatures compiled so far, of every function that features and desk have numba compile."""
    rooms = (rolling, technical, loops, market_batch)
    found = {name: part for room in rooms for name, part in vars(room).items() if isinstance(part, LateKernel)}
    return {name: len(part.signatures) for name, part in found.items()}


def test_a_folder_and_a_panel_without_a_field_are_refused(made: Any, tmp_path: Path) -> None:
    runtime = Runtime(made.bundle)
    with pytest.raises(DataError, match="is not a file; store bars in one"):
        load_history(runtime, tmp_path)
    panel, closes = made.panel, {"close": made.panel.close}
    bare = type(panel).from_fields(panel.index, panel.symbols, closes)
    with pytest.raises(DataError, match="lacks some of the fields"):
        load_history(runtime, bare.save(tmp_path / "bars.parquet"))


# ---- the address ----------------------------------------------------------------------------------------------------


@contextmanager
def started(made: Any, folder: Path, port: int) -> Iterator[subprocess.Popen[str]]:
    """`pacesetter serve` in a folder with a key, as a process."""
    Keys(folder / "keys.json").add("ops", ["read"])
    line = [sys.executable, "-m", "pacesetter.cli", "serve", str(made.folder), "--port", str(port)]
    with subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_port_that_is_taken_ends_in_one_sentence(made: Any, tmp_path: Path, command: Any) -> None:
    Keys(tmp_path / "keys.json").add("ops", ["read"])
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        shown = command("serve", str(made.folder), "--port", str(port))
    why = "the port is in use; stop the other program, or give another --port"
    assert (shown.stdout, shown.stderr) == ("", f"error: cannot listen on 127.0.0.1 port {port}: {why}\n")
    assert shown.returncode == 2


def test_a_server_tells_where_it_stands_and_ends_by_ctrl_c_without_a_word_of_error(made: Any, tmp_path: Path) -> None:
    with _open_socket(ApiSettings(port=0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "HALT").touch()
    with started(made, tmp_path, port) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=600)[1] == ""
    assert process.returncode == 0
    assert "halted: HALT exists; to resume: pacesetter resume --by NAME --file HALT" in lines[0]
    assert f"listening on 127.0.0.1 port {port}" in lines[1]
    assert "Started server" in lines[2]


@pytest.mark.parametrize("host", ["203.0.113.1", "2001:db8::1", "no..host", ""])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match=f"cannot listen on {host} port 8000: it is not an address of this machine"):
        _open_socket(ApiSettings(host=host))


def test_a_port_of_the_administrators_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*address: Any, **options: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(socket, "create_server", forbidden)
    with pytest.raises(ConfigError, match="port 80: that port needs administrator rights"):
        _open_socket(ApiSettings(port=80))
