"""Windows and macOS as far as they can be played here: no fork, no fcntl, no resource; a console with 256 letters."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pandas as pd
import pytest

import pacesetter

PACKAGE = Path(pacesetter.__file__).parent
# At the top of the script, so that a process that it spawns begins with it too.
WITHOUT_POSIX = """
import multiprocessing, os, pathlib, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "psutil"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "getuid", "geteuid", "getloadavg", "sched_getaffinity"):
    delattr(os, name)
multiprocessing.get_all_start_methods = lambda: ["spawn"]
def absent(function):
    def call(path, *arguments, **options):
        if str(path).startswith(("/proc", "/sys", "/dev/shm")):
            raise FileNotFoundError(2, "No such file", str(path))
        return function(path, *arguments, **options)
    return call
pathlib.Path.read_text, pathlib.Path.write_text = absent(pathlib.Path.read_text), absent(pathlib.Path.write_text)
"""
# a command line, as a console with 256 letters has it
COMMAND = """
if __name__ == "__main__":
    from pacesetter.cli import main
    sys.argv[0] = "pacesetter"
    main()
"""
# a study, a backtest, a verdict, a lock that is refused while it is held, and a process
ALL_OF_IT = """
from pathlib import Path
def main():
    import pacesetter as ps
    from pacesetter.errors import RunError
    from pacesetter.learning.workers import START, ProcessWorker
    from pacesetter.locks import hold
    from pacesetter.runs import Run
    panel = ps.load("synthetic", symbols=3, bars=400, seed=1)
    ps.LeadLag("ccf_peak").fit(panel).ranking(lookback=100)
    print(ps.backtest("hold", panel).verdict(draws=50).is_evidence)
    with hold(Path(".")):
        try:
            hold(Path(".")).__enter__()
        except RunError as refused:
            print("refused" if f"process {os.getpid()} on" in str(refused) else refused)
    print(sorted(path.name for path in Path(".").glob("*.lock*")))
    run = Run.create(Path("runs"), "small", {"seed": 1})
    print(sorted(run.finish()["artefacts"]))
    worker = ProcessWorker(start=START)
    print(START, worker.submit(len, "abc").result(120))
    worker.dismiss()
if __name__ == "__main__":
    main()
"""


def test_a_study_a_backtest_a_lock_and_a_process_need_neither_fork_nor_fcntl(tmp_path: Path) -> None:
    script = tmp_path / "all.py"
    script.write_text(WITHOUT_POSIX + ALL_OF_IT, encoding="utf-8")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["False", "refused", "[]", "['config.yaml']", "spawn 3"]


def _call(folder: Path, script: str, *words: str) -> str:
    """What a script prints elsewhere, where every letter can be shown or is replaced."""
    path = folder / "elsewhere.py"
    path.write_text(WITHOUT_POSIX + script, encoding="utf-8")
    console = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, path, *words], cwd=folder, capture_output=True, env=console, check=False)
    assert done.returncode == 0, done.stderr.decode("cp1252")
    assert b"Traceback" not in done.stderr
    return done.stdout.decode("cp1252")


def test_leadlag_on_a_file_runs_elsewhere(tmp_path: Path) -> None:
    pacesetter.load("synthetic", symbols=3, bars=400, seed=1).to_frame()["close"].to_csv(tmp_path / "bars.csv")
    said = _call(tmp_path, COMMAND, "leadlag", "data=bars.csv")
    assert "Report: runs" in said
    assert list(tmp_path.glob("runs/*-leadlag-*/report.html"))


def test_run_and_decide_go_from_bars_to_orders_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="a bundle needs the extra serve")
    short = ["data.bars=600", "job.lookback_steps=64", "job.direct_steps=3072", "job.draws=50"]
    said = _call(tmp_path, COMMAND, "run", "--fast", "data=sandbox", *short)
    assert "Every day: pacesetter decide" in said
    said = _call(tmp_path, COMMAND, "decide", str(Path("runs") / "bundles"))
    assert "After the bar of" in said


def test_the_dashboard_answers_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the dashboard needs Streamlit")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "elsewhere.py"
    path.write_text(WITHOUT_POSIX + COMMAND, encoding="utf-8")
    (tmp_path / "runs").mkdir()
    line = [sys.executable, path, "dashboard", "runs", "--port", str(port)]
    console = os.environ | {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    with (tmp_path / "said").open("wb") as said:
        server = subprocess.Popen(line, cwd=tmp_path, env=console, stdout=said, stderr=said)
        try:
            assert _wait_for(f"http://127.0.0.1:{port}/", server), (tmp_path / "said").read_text("cp1252")
        finally:
            server.kill()
            server.wait()
    assert "Traceback" not in (tmp_path / "said").read_text("cp1252")


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> bool:
    """Whether the address answers before the process ends."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.2)
    return False


def test_a_console_without_a_letter_shows_a_question_mark(tmp_path: Path) -> None:
    closes = pd.DataFrame({"Σ日": range(100, 200)}, pd.date_range("2024-01-01", periods=100, name="time"))
    closes.to_csv(tmp_path / "bars.csv")
    line = [sys.executable, "-m", "pacesetter", "data", "check", "data=csv", "data.path=bars.csv"]
    done = subprocess.run(
        line, cwd=tmp_path, capture_output=True, env=os.environ | {"PYTHONIOENCODING": "cp1252"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert b"??" in done.stdout


def test_every_text_file_names_its_encoding() -> None:
    """On Windows a text without one is read and written in the letters of the country."""
    odd = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                named = {keyword.arg for keyword in node.keywords}
                if node.func.attr in ("read_text", "write_text") and "encoding" not in named:
                    odd.append(f"{path.name}:{node.lineno}")
    assert odd == []
