"""One writer to a folder: refused while another holds it, taken over from one that was killed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pacesetter.errors import RunError
from pacesetter.locks import LOCK, hold

HOLDER = "import sys, pathlib\nfrom pacesetter.locks import hold\nwith hold(pathlib.Path(sys.argv[1])):\n"


def test_a_folder_has_one_writer_who_is_named(tmp_path: Path) -> None:
    with hold(tmp_path):
        with pytest.raises(RunError, match=rf"is in use by process {os.getpid()} on .+ since .+; wait for it to end"):
            hold(tmp_path).__enter__()
        with hold(tmp_path, "other"):
            assert (tmp_path / LOCK).is_file()
    assert list(tmp_path.iterdir()) == []
    with hold(tmp_path):
        assert (tmp_path / LOCK).is_file()


def test_another_process_holds_it_until_it_is_killed_and_what_it_left_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = HOLDER + "    print('held', flush=True)\n    sys.stdin.read()\n"
    line = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"in use by process {process.pid} "):
            hold(tmp_path).__enter__()
        process.kill()
        process.wait()
    with caplog.at_level(logging.WARNING), hold(tmp_path):
        assert f"was left by process {process.pid} on" in caplog.text


def test_an_error_gives_the_folder_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold(tmp_path):
        raise ZeroDivisionError
    with hold(tmp_path):
        assert (tmp_path / LOCK).is_file()
