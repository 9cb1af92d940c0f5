"""Run the command of every row of docs/capabilities.md at a tiny size, and say which of them work here.

    python scripts/capabilities.py                # all rows, minutes each on a small machine
    python scripts/capabilities.py TB-7.4 LL-84   # only these rows
    python scripts/capabilities.py --list         # what would be run, and what is left out and why
    python scripts/capabilities.py --folder build/capabilities --minutes 8   # in pieces: the same line resumes it
    python scripts/capabilities.py --folder build/capabilities --record      # benchmarks/results/capabilities.md
    python scripts/capabilities.py --folder build/capabilities --record --known   # of what was run so far, nothing more

It knows the package only by its command line, so that it cannot share a mistake with the tests. Options that make a
command small are added here; what a command does is left as the page writes it. A folder is of one commit, and its
outcomes are of no other. Exit 1 if a command fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "capabilities.md"
RECORD = ROOT / "benchmarks" / "results" / "capabilities.md"
SECONDS = 3600  # generous: the machine may be shared
TICKS = ROOT / "src" / "pacesetter" / "data" / "ticks" / "btc_jpy"
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
MARKET = ("data=synthetic", "data.symbols=3", "data.bars=420")
NETWORK = ("agent.network=mlp", "agent.network_options={width:8,layers:1}", "agent.heads=[8]")
STEPS = ("agent.n_steps=16", "agent.batch_size=16", "train.envs=4", "train.steps=64", "train.validate_every=64")
EPISODES = ("task.window_bars=4", "task.episode_bars=20")
LOOKBACK = ("task.windows.longest=24", "task.windows.seen=[6,12,30]", "task.windows.grid=[10,16,24]")
FLEET = ("task=fleet", *MARKET, *EPISODES, "features.names=[return_1,volatility_10]", *STEPS, *QUIET)
LAUNCHED = (*MARKET, "train.steps=64", "train.envs=4", "train.validate_every=64", *QUIET)

# A run of each kind that other commands are given, made when it is first needed.
RUNS = {
    "trading": ("train", "agent=ppo", *MARKET, *EPISODES, *NETWORK, *STEPS, *QUIET),
    "discrete": ("train", "agent=ppo", "task.action=discrete", *MARKET, *EPISODES, *NETWORK, *STEPS, *QUIET),
    "fleet": ("train", *FLEET, "agent.network_options={width:8,layers:1}", "agent.heads=[8]"),
    "long": ("train", *(word.replace("data.bars=420", "data.bars=900") for word in FLEET)),
    "direct": ("train", "task=fleet", "agent=direct", *MARKET, *EPISODES, "train.steps=3072", *QUIET),
    # On the first bars, so that a trader may read its windows in later ones.
    "lookback": (
        *("train", "task=lookback", "agent=full_information", *MARKET, *LOOKBACK, "agent.network=mlp_tiny"),
        *("agent.heads=[8]", "agent.n_steps=16", "train.envs=4", "train.steps=128", "train.shares=[0.3,0.1]", *QUIET),
    ),
    "meta": ("train", *FLEET, "agent=meta", "agent.network_options={width:8,layers:1}", "agent.heads=[8]"),
    "job": ("run", "data=sandbox", "job.lookback_steps=256", "job.direct_steps=3072", "job.draws=20"),
}
# How a row's RUN is chosen: by what the command begins with, or what it has in it; the first that fits.
KINDS = (
    ("--agents", "fleet"),
    ("task.fleet=", "fleet"),
    ("lag.run=", "direct"),
    ("leadlag.lookback=RUN", "lookback"),
    ("distill", "long"),  # a teacher that a student can be smaller than
    ("online", "long"),
    ("train --from RUN --continuous", "discrete"),
    ("train --from", "fleet"),
    ("lab adapt", "meta"),
    ("inspect", "job"),
)
# What makes a command small: by its first words; the longest that fits.
SMALLER = {
    "run": ("data=sandbox", "job.lookback_steps=256", "job.direct_steps=3072", "job.fleet_steps=64", "job.draws=20"),
    "train task=master": (
        "train.steps=64",
        "train.envs=4",
        "train.validate_every=64",
        "task.episode_bars=20",
        "agent.batch_size=64",
        *QUIET,
    ),
    "train task=two_level": ("train.steps=64", "train.envs=4", "train.validate_every=64", "data.bars=1500", *QUIET),
    "train +preset=original": (
        *("data=synthetic", "data.symbols=3", "data.bars=900", "task.symbols=[]", "evaluation.index=null"),
        *NETWORK[:2],
        *("task.episode_bars=50", "agent.n_steps=16", "agent.batch_size=64"),
        *("train.steps=64", "train.envs=4", "train.validate_every=64"),
        *QUIET,
    ),
    "train": ("train.steps=64", "train.envs=4", "train.validate_every=64", *QUIET),
    # Regimes by signatures read 266 bars before the first label.
    "train task=fleet features.names=[return_1,signature_regime]": (
        *("data.bars=900", "train.steps=64", "train.envs=4", "train.validate_every=64"),
        *QUIET,
    ),
    "train --launch tune": (*LAUNCHED, "tune.trials=1"),
    "train --launch sweep": (*LAUNCHED, "agent=ppo,a2c"),
    "data check": ("data=sandbox",),
    "data fetch": ("data=sandbox",),
    "leadlag": ("data=synthetic", "data.symbols=4", "data.bars=300", "lag.lookback=60"),
    "leadlag lag.autoencoder": ("data=synthetic", "data.symbols=4", "data.bars=900", "lag.lookback=60", "lag.step=10"),
    "leadlag data=ticks": (),
    "leadlag lag.method=policy": (*MARKET, "lag.lookback=60"),  # the bars that its run learned from
    "evaluate": ("--draws", "20", "--fast"),
    "verify": (),
    "baseline": ("data=synthetic", "data.symbols=3", "data.bars=1000"),
    "baseline sl": ("data=synthetic", "data.symbols=3", "data.bars=2000"),
    "validate": ("--draws", "20"),
    "bundle make": ("--observations", "100", "--despite-no-go"),
    "lab profile": (
        "data=synthetic",
        "data.bars=420",
        *EPISODES,
        *NETWORK,
        *STEPS[:3],
        "train.steps=1024",
        "train.log_every=256",
    ),
    "paper": ("bars=3",),
    "paper BUNDLE": ("bars=3", "folder=served"),  # a journal of its own, not that of a baseline
    "lab programme": ("--phase", "data", *MARKET),
    "lab programme +preset": ("--phase", "data"),
    "lab programme --": (),
    "lab selftest": ("selftest.copies=4", "selftest.agent_copies=0", "selftest.draws=19", "selftest.halvings=2"),
    "data export": ("--episodes", "4", "--bars", "20", "task.window_bars=4", "features.names=[return_1,volatility_10]"),
    "distill": ("--steps", "256", "--episodes", "2"),
    "train --from": (*MARKET, FLEET[6], *STEPS[2:], *QUIET),  # the market and features of the run
    "lab adapt": ("--tasks", "2", "--episodes", "1"),
    "online": ("steps=64", "every_bars=40"),
    "lab scan": ("--lookbacks", "60", "data=synthetic", "data.symbols=4", "data.bars=300"),
}
# What a command is given that the page leaves to the reader.
GIVEN = {
    "data process": ("data/raw.parquet",),
    "data split": ("data/raw.parquet",),
    "paper": ("equal_weight", "data=synthetic"),
    "bundle check": ("BUNDLE",),
    "journal upgrade": ("sqlite:///paper/journal.db",),
    "journal show": ("sqlite:///paper/journal.db",),
    "halt": ("drill",),
}
# What must have run before, by how a command begins.
BEFORE = {
    "data process": "pacesetter data fetch data=sandbox",
    "data split": "pacesetter data fetch data=sandbox",
    "journal": "pacesetter paper equal_weight data=synthetic bars=3",
    "compare": "pacesetter evaluate RUN --draws 20 --fast",
    "evaluate RUN --gate": "pacesetter evaluate RUN --draws 20 --fast",
    "lab programme --": "pacesetter lab programme",
    "journal verify": "pacesetter paper BUNDLE --publish public bars=3 folder=served",
    "bundle rollback": "pacesetter bundle make RUN --observations 100 --despite-no-go",
    "train task=fleet agent=cql": "pacesetter data export random data=sample",
}
# What must run afterwards, so that later commands find things as they were.
AFTER = {"halt": "pacesetter resume --by capabilities"}
LEFT_OUT = {
    "make": "the whole suite, or an installation: minutes to hours, and its own check",
    "pip": "changes the environment",
    "python scripts/fresh": "installs the package into a new environment: minutes, and its own check",
    "python benchmarks": "measures for minutes; `make bench` records it",
    "python examples/rllib": "needs the extra `ray`",
    "pacesetter serve": "serves until it is stopped",
    "pacesetter dashboard": "serves until it is stopped",
    "pacesetter train --launch cluster": "needs the extra `ray`, or several machines",
    "pacesetter lab league": "hours, cells are kept; `league quick` for a laptop",
    "pacesetter lab ablate": "hours, cells are kept",
    **dict.fromkeys(
        (f"pacesetter lab reproduce {name}" for name in ("us_japan", "stock_ranking", "network_momentum")),
        "needs data that is not distributed",
    ),
    "pacesetter leadlag +preset=us_japan": "needs data that is not distributed",
}


class Row(NamedTuple):
    """A line of the table: its numbers, status, and the commands that show it."""

    name: str
    status: str
    commands: tuple[str, ...]
    missing: str


class Outcome(NamedTuple):
    """What came of one command: works, FAILED or left out."""

    row: str
    command: str
    result: str
    why: str
    seconds: float


def read_rows(text: str) -> list[Row]:
    """The rows of the page; refuses one that holds in part and does not say which part."""
    rows = []
    for line in text.splitlines():
        if not re.match(r"\| ([A-Z]+-|beyond)", line):
            continue
        name, _, status, shown, proof = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        missing = re.sub(r"`[^`]*`", "", proof).strip(" ,;:")
        if status == "part" and not missing:
            raise SystemExit(f"error: the row '{name}' holds in part and does not say which; add it to the last column")
        rows.append(Row(name, status, tuple(re.findall(r"`([^`]+)`", shown)), missing))
    return rows


def left_out(command: str) -> str:
    """Why a command is not run here; empty where it is."""
    return next((why for start, why in LEFT_OUT.items() if command.startswith(start)), "")


def smaller(command: str) -> list[str]:
    """The words of a `pacesetter` command with what makes it small; RUN and … stay to be filled in."""
    words = [word for word in shlex.split(command.replace("\\|", "|")) if word != "…"]
    words += next((list(given) for start, given in GIVEN.items() if " ".join(words[1:]) == start), [])
    if {"--resume", "--continuous"} & {*words}:
        return words
    begin = [key for key in SMALLER if " ".join(words[1:]).startswith(key)]
    more = SMALLER[max(begin, key=len)] if begin else ()
    named = {word.partition("=")[0] for word in words}
    own = [word for word in more if word.partition("=")[0] not in named]
    if "data" in named and "data=synthetic" not in words:
        own = [word for word in own if not word.startswith("data.")]  # stored bars have a size of their own
    if any(word.startswith("agent.dataset=") for word in words):
        # The bars and features that the episodes were played on.
        own += ["data=sample", "features.names=[return_1,volatility_10]"]
    elif words[1:2] == ["train"] and not any(word.startswith(("data=", "+preset=", "task=master")) for word in words):
        sized = {word.partition("=")[0] for word in own}
        own += [word for word in MARKET if word.partition("=")[0] not in sized]
    if "agent.network=cross" in words:
        own.append("features.leadlag.lookback=30")  # its own window of 250 bars would leave none
    sizes = LOOKBACK if "task=lookback" in words else EPISODES if words[1:2] == ["train"] else ()
    if not any(word.startswith(("+preset=", "task=master", "task=two_level")) for word in words):
        own += [word for word in sizes if word.partition("=")[0] not in named]
    if "data=synthetic" in words and "run" in words and "data.bars" not in named:
        own += ["data.symbols=8", "data.bars=1000"]
    return [*words, *own]


class NotRunError(Exception):
    """A command has no outcome yet, and none is asked for."""


class Workshop:
    """A folder in which commands run, the runs that they are given, and what came of each command so far."""

    def __init__(self, folder: Path, is_known_only: bool = False) -> None:
        self.folder = folder
        self.is_known_only = is_known_only
        self._made: dict[str, Path] = {}
        self._log = folder / "outcomes.jsonl"
        lines = self._log.read_text(encoding="utf-8").splitlines() if self._log.is_file() else []
        self._known = {tuple(words): (is_fine, said) for words, is_fine, said in map(json.loads, lines)}

    def run(self, words: list[str]) -> tuple[bool, str]:
        """Whether the words work, and their last line; several rows may name one command, which runs once."""
        if tuple(words) not in self._known and self.is_known_only:
            raise NotRunError
        if tuple(words) not in self._known:
            self._known[tuple(words)] = self._run(words)
            with self._log.open("a", encoding="utf-8") as log:
                log.write(json.dumps([words, *self._known[tuple(words)]]) + "\n")
        return self._known[tuple(words)]

    def forget_failures(self) -> None:
        """So that the next run tries again what failed."""
        kept = {words: outcome for words, outcome in self._known.items() if outcome[0]}
        self._known = kept
        lines = [json.dumps([words, *outcome]) + "\n" for words, outcome in kept.items()]
        self._log.write_text("".join(lines), encoding="utf-8")

    def _run(self, words: list[str]) -> tuple[bool, str]:
        line = [sys.executable, "-m", "pacesetter", *words[1:]] if words[0] == "pacesetter" else words
        line = [sys.executable, str(ROOT / words[1]), *words[2:]] if words[0] == "python" else line
        paths = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
        # dvc calls `pacesetter` by its name, which need not be on the caller's path
        programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
        env = os.environ | {"PYTHONPATH": paths, "PATH": programs, "DVC_NO_ANALYTICS": "1"}
        try:
            # Nothing is typed: what serves on its input, as `mcp` does, ends.
            options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": SECONDS}
            found = subprocess.run(line, cwd=self.folder, env=env, **options)
        except subprocess.TimeoutExpired:
            return False, f"took longer than {SECONDS} s"
        said = (found.stderr if found.returncode else found.stdout).strip().splitlines()
        is_fine = found.returncode == 0 or (found.returncode == 1 and words[1:2] in (["validate"], ["data"]))
        return is_fine, said[-1] if said else ""

    def made(self, kind: str) -> Path:
        """The run of a kind."""
        if kind not in self._made:
            where = self.folder / kind
            is_fine, said = self.run(["pacesetter", *RUNS[kind], f"runs={where}"])
            if not is_fine:
                raise SystemExit(f"error: no run of the kind {kind} could be made: {said}")
            self._made[kind] = next(path.parent for path in sorted(where.glob("*/manifest.json")))
        return self._made[kind]

    def filled(self, words: list[str]) -> list[str]:
        """With RUN, BUNDLE and … filled in."""
        line = " ".join(words[1:])
        kind = next((kind for part, kind in KINDS if line.startswith(part) or part in line), "trading")
        whole = [word.replace("RUN", str(self.made(kind))) if "RUN" in word else word for word in words]
        if "--gate" in whole:
            whole[whole.index("--gate") + 1] = str(self.made(kind) / "evaluation" / "evaluation.json")
        files = self._files() if any(name in line for name in ("FOLDER", "FILE", ".csv")) else self.folder
        folder = TICKS if "data=ticks" in whole else files
        whole = [word.replace("FOLDER", str(folder)).replace("FILE", str(self.folder / "market.csv")) for word in whole]
        return [self._bundle() if word == "BUNDLE" else word for word in whole]

    def _files(self) -> Path:
        """A folder with a file of bars for each of three symbols, written here."""
        folder = self.folder / "bars"
        folder.mkdir(exist_ok=True)
        for place, symbol in enumerate("ABC"):
            closes = [100 + math.sin(bar / (3 + place)) + 0.01 * bar for bar in range(300)]
            days = [date(2020, 1, 1) + timedelta(bar) for bar in range(300)]
            lines = [f"{day},{close:.6f}" for day, close in zip(days, closes, strict=True)]
            (folder / f"{symbol}.csv").write_text("\n".join(["time,close", *lines]) + "\n", encoding="utf-8")
        table = []
        for symbol in ("7203", "AAA", "BBB", "USDJPY"):
            draw, close = random.Random(symbol), 100.0
            for bar in range(1000):
                last, close = close, close * math.exp(draw.gauss(0.0003, 0.01))
                prices = f"{last:.6f},{1.002 * max(last, close):.6f},{0.998 * min(last, close):.6f},{close:.6f}"
                table.append((date(2020, 1, 1) + timedelta(bar), f"{symbol},{prices},1000000,{close:.6f}"))
        for name, form in (("bars.csv", "%d/%m/%Y"), ("market.csv", "%Y-%m-%d")):
            lines = [
                "time,symbol,open,high,low,close,volume,close_unadjusted",
                *(f"{day:{form}},{rest}" for day, rest in table),
            ]
            (self.folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        members = "symbol,start,end\n7203,2020-01-01,\nAAA,2020-01-01,2021-01-01\nBBB,2020-06-01,\nUSDJPY,2020-01-01,\n"
        (self.folder / "members.csv").write_text(members, encoding="utf-8")
        return folder

    def _bundle(self) -> str:
        store = self.folder / "bundles"
        if not store.is_dir():
            self.run(["pacesetter", "bundle", "make", str(self.made("fleet")), "--store", str(store)])
        return str(store)


def try_row(row: Row, workshop: Workshop) -> list[Outcome]:
    """Every command of a row."""
    outcomes = []
    for command in row.commands:
        try:
            outcomes.append(_try(row.name, command, workshop))
        except NotRunError:
            outcomes.append(Outcome(row.name, command, "not run", "", 0.0))
    return outcomes


def _try(name: str, command: str, workshop: Workshop) -> Outcome:
    why = left_out(command) or ("what it is given is the reader's" if "=…" in command else "")
    if why:
        return Outcome(name, command, "left out", why, 0.0)
    start = time.perf_counter()
    for begin, first in BEFORE.items():
        if command.startswith(f"pacesetter {begin}"):
            # As small as the same command of its own row; what is small already is left as it is.
            words = shlex.split(first)
            workshop.run(workshop.filled(words if {"--draws", "--observations"} & {*words} else smaller(first)))
    words = smaller(command) if command.startswith("pacesetter") else shlex.split(command)
    if command.startswith("dvc"):
        for path in ("dvc.yaml", "params.yaml", ".dvc", "src"):
            if not (workshop.folder / path).exists():
                copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
                copy(ROOT / path, workshop.folder / path)
        words = [sys.executable, "-m", *words]
        subprocess.run(["git", "init", "--quiet"], cwd=workshop.folder, check=True)
    is_fine, said = workshop.run(workshop.filled(words))
    for begin, last in AFTER.items():
        if command.startswith(f"pacesetter {begin}"):
            workshop.run(shlex.split(last))
    # The folder is this machine's, and what is recorded is for everyone.
    said = said.replace(f"{workshop.folder}/", "")
    return Outcome(name, command, "works" if is_fine else "FAILED", said, time.perf_counter() - start)


@contextmanager
def workplace(folder: Path | None) -> Iterator[Path]:
    """The named folder, which stays, or a temporary one."""
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="capabilities-") as place:
        yield Path(place)


def commit() -> str:
    """The commit of this tree, with a + where it is changed."""
    said = ["git", "describe", "--always", "--dirty=+", "--exclude=*", "--abbrev=8"]
    return subprocess.run(said, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def check_commit(folder: Path) -> str:
    """The commit that a folder is of, this one where it is new; refuses a folder of another."""
    stamp, own = folder / "commit.txt", commit()
    known = stamp.read_text(encoding="utf-8").strip() if stamp.is_file() else own
    if known != own:
        raise SystemExit(f"error: {folder} has outcomes of {known}, and this is {own}; give another --folder")
    stamp.write_text(f"{own}\n", encoding="utf-8")
    return own


def record(outcomes: list[Outcome], said: str, own: str, target: Path) -> None:
    """The outcome of every command as a page of results."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from record import machine, table

    lines = [(found.row, f"`{found.command}`", found.result, found.why[:80].replace("|", "/")) for found in outcomes]
    title = "# The command of every row of docs/capabilities.md, at a tiny size"
    command = f"`python scripts/capabilities.py --record` on {time.strftime('%Y-%m-%d')}: {machine()}"
    rows = table(("row", "command", "result", "its last line, or why it was left out"), lines)
    target.write_text(f"{title}\n\n{command}\n\n{said}\n\n{rows}\n\nRecorded at commit {own}.\n", encoding="utf-8")


def summary(outcomes: list[Outcome]) -> str:
    """How many commands work."""
    counts = Counter(found.result for found in outcomes)
    ran = counts["works"] + counts["FAILED"]
    said = f"{counts['works']} of {ran} commands work; {counts['left out']} were left out"
    return f"{said}, {counts['not run']} were not run." if counts["not run"] else f"{said}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", help="only rows whose numbers have one of these in them")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--folder", type=Path, help="where to work; what was run there is not run again")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after these; the next call resumes")
    parser.add_argument("--again", action="store_true", help="try again what failed in the folder")
    parser.add_argument("--known", action="store_true", help="run nothing: list what was run in the folder")
    parser.add_argument("--record", action="store_true", help=f"write {RECORD.relative_to(ROOT)}")
    options = parser.parse_args()
    rows = [row for row in read_rows(PAGE.read_text(encoding="utf-8")) if row.status != "planned"]
    rows = [row for row in rows if not options.rows or any(part in row.name for part in options.rows)]
    if options.list:
        for row in rows:
            for command in row.commands:
                print(f"{row.name:<24} {left_out(command) or shlex.join(smaller(command))}")
        return
    outcomes: list[Outcome] = []
    left = 0
    end = time.monotonic() + 60 * options.minutes
    with workplace(options.folder) as place:
        own = check_commit(place)
        workshop = Workshop(place, options.known)
        if options.again:
            workshop.forget_failures()
        for number, row in enumerate(rows):
            if time.monotonic() > end:
                left = len(rows) - number
                break
            for found in try_row(row, workshop):
                line = f"{found.row:<24} {found.result:<9} {found.seconds:6.1f} s  {found.command}  {found.why[:100]}"
                print(line, flush=True)
                outcomes.append(found)
    said = summary(outcomes) + (f" {left} rows are left; the same command with --folder resumes." if left else "")
    print(said)
    if options.record:
        record(outcomes, said, own, RECORD)
    sys.exit(any(found.result == "FAILED" for found in outcomes))


if __name__ == "__main__":
    main()
