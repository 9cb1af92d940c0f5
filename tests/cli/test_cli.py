"""The command line as a user meets it: help, a job, checks, and one sentence for every mistake.

Runs `cli.data`, `cli.overrides`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from unittest import mock

import pytest

from pacesetter import cli

GOOD = "date,symbol,open,high,low,close,volume\n" + "".join(
    f"2020-01-{day:02},A,1.{day},2,1,1.{day},100\n" for day in (2, 3, 6, 7, 8, 9, 10)
)


def test_help_lists_the_commands(process):
    shown, everything = process("--help"), process("--help", "--all")
    assert (shown.returncode, everything.returncode) == (0, 0)
    first, listed = (re.findall(r"^│ ([a-z]+) ", text, re.M) for text in (shown.stdout, everything.stdout))
    assert len(first) == 10
    assert set(first) < set(listed)
    assert {"config", "lab", "verify", "keys"} <= set(listed)
    elsewhere = {"league", "tune", "sweep", "cluster", "scan", "drill", "networks", "export", "finetune", "migrate"}
    assert not elsewhere & set(listed)
    assert sum(map(len, cli.PANELS.values())) == len(set(listed))
    assert set().union(*cli.PANELS.values()) == set(listed)


def test_help_and_import_stay_light():
    heavy = ("pandas", "numba", "torch", "plotly", "hydra", "sklearn", "skfolio")
    code = f"import sys, pacesetter, pacesetter.cli; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_numpy_has_one_thread_unless_it_is_asked_for_more(monkeypatch):
    code = "import os, pacesetter.cli as c; c.app = lambda: None; c.main(); print(os.environ['OPENBLAS_NUM_THREADS'])"
    for given, used in ((None, "1"), ("2", "2")):
        monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
        if given:
            monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert out.stdout.strip() == used


def test_version(command):
    assert command("--version").stdout.startswith("pacesetter 0.")


def test_run_prints_where_the_report_is(command, tmp_path):
    shown = command("leadlag", "data=sandbox", "name=try")
    assert shown.returncode == 0, shown.stderr
    assert "Report: runs/" in shown.stdout
    assert list(tmp_path.glob("runs/*-try-*/report.html"))


def test_leadlag_prints_the_hit_rate_of_its_cache(command):
    tiny = ("data=synthetic", "data.symbols=3", "data.bars=80", "lag.lookback=20", "lag.draws=2")
    assert re.search(r"\d% of \d+ windows from the cache", command("leadlag", *tiny, "lag.method=signature").stdout)
    assert "from the cache" not in command("leadlag", *tiny).stdout


def test_config_prints_the_resolved_settings_and_their_hash(command):
    shown = command("config", "data=synthetic", "data.symbols=50")
    assert "symbols: 50" in shown.stdout
    assert "# hash " in shown.stdout


def test_data_list_names_every_source(command):
    shown = command("data", "list").stdout
    assert all(name in shown for name in ("sample", "synthetic", "csv", "parquet", "yahoo", "alpaca", "ccxt"))


def test_check_of_good_bars_is_ready(command, tmp_path):
    (tmp_path / "bars.csv").write_text(GOOD)
    shown = command("data", "check", "data=csv", "data.path=bars.csv", "--json", "out.json")
    assert shown.returncode == 0, shown.stdout
    assert "READY: 0 errors" in shown.stdout
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["ok"] is True
    assert report["coverage"][0]["bars"] == 7


def test_a_report_of_bars_and_environment_is_a_page_and_markdown(command, tmp_path):
    (tmp_path / "bars.csv").write_text(GOOD.replace("1.7,2,1,1.7", "1.7,1,2,1.7"))
    shown = command("data", "check", "data=csv", "data.path=bars.csv", "--report", "pages/ready.html")
    assert shown.returncode == 1  # the page is written of bars that are not ready too
    page, text = ((tmp_path / "pages" / f"ready.{ending}").read_text() for ending in ("html", "md"))
    for anchor in ("data", "coverage", "environment"):
        assert f'id="{anchor}"' in page
    assert "NOT READY: 7 bars" in text
    assert "| error | high_low | A |" in text
    assert "| Python |" in text


def test_check_of_bad_bars_names_file_row_symbol_rule(command, tmp_path):
    (tmp_path / "bars.csv").write_text(GOOD.replace("1.7,2,1,1.7", "1.7,1,2,1.7"))
    shown = command("data", "check", "data=csv", "data.path=bars.csv")
    assert shown.returncode == 1
    assert "bars.csv row 5 (A, 2020-01-07" in shown.stdout
    assert "[high_low]" in shown.stdout
    assert "NOT READY: 1 error" in shown.stdout


def test_a_name_that_is_markup_is_shown_letter_by_letter(command, tmp_path):
    (tmp_path / "bars.csv").write_text(GOOD.replace(",A,", ",[/red],"))
    shown = command("data", "check", "data=csv", "data.path=bars.csv")
    assert (shown.returncode, "[/red]" in shown.stdout) == (0, True), shown.stderr
    (tmp_path / "bars.csv").write_text(GOOD.replace(",A,", ",\x1b[31mA,"))
    for words in (("data", "check"), ("data", "fetch")):
        shown = command(*words, "data=csv", "data.path=bars.csv")
        assert shown.returncode in (1, 2)
        assert "\x1b" not in shown.stdout + shown.stderr
        assert r"\x1b[31mA" in shown.stdout + shown.stderr


@pytest.mark.parametrize("filename", [None, "runs/x"])
def test_a_full_disk_is_one_sentence(filename, monkeypatch, capsys):
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", filename)

    monkeypatch.setattr(cli, "app", full)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    where = filename or "the disk"
    told = f"error: {where} cannot be used: No space left on device; make room, then go on with the same command\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, told)


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (MemoryError(), "MemoryError"),
        (MemoryError("Unable to allocate 186. GiB for an array"), "Unable to allocate 186. GiB for an array"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore"),
            "DefaultCPUAllocator: can't allocate memory",
        ),
    ],
)
def test_too_little_memory_is_one_sentence(problem, why, monkeypatch, capsys):
    monkeypatch.setattr(cli, "app", mock.Mock(side_effect=problem))
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"error: not enough memory ({why}); take fewer symbols")
    monkeypatch.setattr(cli, "app", mock.Mock(side_effect=RuntimeError("another defect")))
    with pytest.raises(RuntimeError, match="another defect"):
        cli.main()


def test_more_symbols_than_fit_into_memory_are_refused_before_the_work(command, monkeypatch):
    monkeypatch.setattr("pacesetter.leadlag.memory.free_bytes", lambda: 2**18)
    shown = command("leadlag", "data=synthetic", "data.symbols=60", "data.bars=400")
    assert shown.returncode == 2
    assert "lead–lag of 60 symbols" in shown.stderr
    assert "needs about 0.0 GiB of memory, and 0.0 GiB are free; take fewer by data.symbols" in shown.stderr


def test_a_process_ends_with_one_sentence_and_exit_2_too(process):
    shown = process("config", "data.pathh=x", "data=csv")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == "error: unknown key 'data.pathh'; did you mean 'data.path'?\n"


@pytest.mark.parametrize("words", [("run",), ("data", "check"), ("data", "fetch"), ("config",)])
def test_a_typo_is_one_sentence_and_exit_2(command, words):
    shown = command(*words, "data.pathh=x", "data=csv")
    assert shown.returncode == 2
    assert shown.stderr.strip() == "error: unknown key 'data.pathh'; did you mean 'data.path'?"


@pytest.mark.parametrize(
    "content", [b"", b"\x00\xff\x00", b"date,close\n2020-01-02,1\n2020-0", b"x\n", b"date,close\nnever,1\n"]
)
def test_a_broken_file_is_one_sentence_and_exit_2(command, tmp_path, content):
    (tmp_path / "bars.csv").write_bytes(content)
    shown = command("run", "data=csv", "data.path=bars.csv")
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: bars.csv")
    assert len(shown.stderr.strip().splitlines()) == 1


def test_a_folder_that_cannot_be_written_to_is_one_sentence_and_exit_2(command, tmp_path):
    (tmp_path / "taken").write_text("a file")
    shown = command("run", "data=sandbox", "runs=taken")
    assert shown.returncode == 2
    assert shown.stderr.startswith("error: taken/")
    assert shown.stderr.strip().endswith("cannot be used: Not a directory")


def test_fetch_process_split_leave_artefacts_with_hashes(command, tmp_path):
    assert command("data", "fetch", "data=sandbox", "--out", "data/raw.parquet").returncode == 0
    assert (
        command("data", "process", "data/raw.parquet", "--out", "data/weekly.parquet", "--resolution", "1W").returncode
        == 0
    )
    shown = command("data", "split", "data/weekly.parquet", "--out", "data/splits.json")
    assert shown.returncode == 0, shown.stderr
    assert json.loads((tmp_path / "data/splits.json").read_text())["hash"]
    assert len(list((tmp_path / "data").glob("*.manifest.json"))) == 3


def test_the_shell_completes_commands():
    """As a shell asks: by an environment variable with what is typed so far."""
    asked = {"_PACESETTER_COMPLETE": "complete_bash", "COMP_WORDS": "pacesetter lea", "COMP_CWORD": "1"}
    code = "from pacesetter.cli import app; app(prog_name='pacesetter')"
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **asked}, capture_output=True, text=True)
    assert done.stdout.split() == ["leadlag"]
    # Typer looks for the shell among the parent processes; in CI there may be none, so it is named here.
    here = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    line = [sys.executable, "-c", code, "--show-completion", "bash"]
    shown = subprocess.run(line, env=here, capture_output=True, text=True, check=True)
    assert "_PACESETTER_COMPLETE=complete_bash" in shown.stdout


def test_a_misspelled_league_is_one_sentence(command):
    shown = command("lab", "league", "quik")
    assert shown.returncode == 2
    assert shown.stderr.strip() == "error: 'quik' is neither quick, full nor key=value; did you mean 'quick'?"


WITHOUT = "import sys; sys.modules[{module!r}] = None; sys.argv = {line!r}; from pacesetter.cli import main; main()"


def _without(module: str, line: list[str], folder: object) -> subprocess.CompletedProcess[str]:
    """A command where a library is not installed."""
    code = WITHOUT.format(module=module, line=["pacesetter", *line])
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["run", "demo"])
def test_what_trains_is_refused_before_it_begins_where_torch_is_missing(tmp_path, command):
    done = _without("torch", [command], tmp_path)
    assert done.returncode == 2
    assert re.fullmatch(r"error: the \w+ needs torch; install it with: pip install 'pacesetter\[run\]'\n", done.stderr)
    assert (done.stdout, list(tmp_path.iterdir())) == ("", [])


def test_a_missing_library_of_an_extra_is_one_sentence(tmp_path):
    done = _without("alembic", ["decide", "bundles"], tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "error: this needs alembic; install it with: pip install 'pacesetter[serve]'\n",
    )
