"""What tests share: the repository's root, the optional data beside it, and a way to call the command line."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from rich.console import Console

ROOT = Path(__file__).resolve().parents[1]
TERMINAL = {"COLUMNS": "160", "TERM": "dumb"}
US143 = ROOT.parent / "shared" / "data" / "us143_daily_2005_2016.parquet"


@pytest.fixture(scope="session", autouse=True)
def _stable_baselines_logs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Where Stable-Baselines3's own classes log, which otherwise leave folders among the temporary files."""
    os.environ.setdefault("SB3_LOGDIR", str(tmp_path_factory.mktemp("sb3")))


@pytest.fixture(scope="session", autouse=True)
def _plain_python() -> Iterator[None]:
    """Where numba compiles nothing, as for `make coverage`, a prefetch of the compiler does nothing."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0":
        yield
        return
    with mock.patch("pacesetter.envs.batch.loops.prefetch", return_value=None):
        yield


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's own answer to SIGINT, which a shell takes away from what it starts in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def sized() -> Callable[[int], int]:
    """The size of a proof: as given, or the share of it that PROOF_SHARE names, for a first look at it."""
    share = float(os.environ.get("PROOF_SHARE", "1"))
    return lambda whole: max(1, round(whole * share))


@pytest.fixture
def us143() -> Path:
    """143 US stocks, daily 2005–2016; the file is not shipped."""
    if not US143.exists():
        pytest.skip("us143_daily_2005_2016.parquet is not beside this checkout (../shared/data)")
    return US143


@dataclass(frozen=True)
class Answer:
    """What a command left: its exit code, and all that it wrote."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(tmp_path: Path) -> Callable[..., Answer]:
    """Call `pacesetter …` by its own `main` in an empty folder; gives exit code and output.

    It stays in this process, since a new one imports everything again; what a process has for itself is put back.
    """
    from pacesetter import cli

    def call(*words: str) -> Answer:
        out, error = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        code: object = 0
        with (
            contextlib.chdir(tmp_path),
            mock.patch.dict(os.environ, TERMINAL),
            mock.patch.object(sys, "argv", ["pacesetter", *words]),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(error),
            fresh_logging(),
        ):
            try:
                cli.main()
            except SystemExit as ended:
                code = 0 if ended.code is None else ended.code
        return Answer(code if isinstance(code, int) else 1, _written(out), _written(error))

    return call


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()


@contextlib.contextmanager
def fresh_logging() -> Iterator[None]:
    """Loggers as a new process has them: no handlers at the root; afterwards all are as before."""
    root = logging.getLogger()
    loggers = [root, *(each for each in root.manager.loggerDict.values() if isinstance(each, logging.Logger))]
    before = [(each, each.level, list(each.handlers), each.propagate, each.disabled) for each in loggers]
    root.handlers[:] = []
    try:
        yield
    finally:
        for each, level, handlers, propagate, disabled in before:
            each.setLevel(level)
            each.handlers[:], each.propagate, each.disabled = handlers, propagate, disabled


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """As `command`, in a process of its own: seconds each, for what only a whole process shows."""

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        line, env = [sys.executable, "-m", "pacesetter.cli", *words], os.environ | TERMINAL
        return subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=600, env=env, check=False)

    return call


SMALL = [
    *("data=synthetic", "data.symbols=3", "data.bars=400", "task.window_bars=6", "task.episode_bars=20"),
    *("agent.network=mlp", "agent.network_options={width:16,layers:1}", "agent.heads=[16]"),
    *("train.envs=4", "train.steps=256", "train.log_every=64", "train.validate_every=128", "train.checkpoint_every=64"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]
ROLLOUTS = ["agent.n_steps=16", "agent.batch_size=16", "agent.n_epochs=2"]
REPLAY = ["agent.learning_starts=40", "agent.batch_size=16", "task.action=continuous"]
AGENTS = {
    "ppo": ["agent=ppo", *ROLLOUTS],
    "recurrent_ppo": ["agent=recurrent_ppo", *ROLLOUTS],
    "gru_ppo": ["agent=gru_ppo", *ROLLOUTS],
    "maskable_ppo": ["agent=maskable_ppo", "task.action=discrete", *ROLLOUTS],
    "a2c": ["agent=a2c"],
    "sac": ["agent=sac", *REPLAY],
    "td3": ["agent=td3", *REPLAY],
}


class Small:
    """A training run of a second: `small("ppo", "train.patience=1")` is its config, `overrides` are those of PPO."""

    def __init__(self, runs: Path) -> None:
        self.runs = runs
        self.common = [*SMALL, f"runs={runs}"]
        self.overrides = [*AGENTS["ppo"], *self.common]

    def __call__(self, agent: str = "ppo", *more: str) -> Any:
        from pacesetter.jobs.hydra.resolve import resolve

        return resolve([*AGENTS[agent], *self.common, *more])


@pytest.fixture
def small(tmp_path: Path) -> Small:
    """See `Small`; its runs lie under the test's own folder."""
    return Small(tmp_path / "runs")


@pytest.fixture(scope="session")
def make_small() -> type[Small]:
    """See `Small`, for fixtures that live longer than a test."""
    return Small


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of `Small`, trained once; whoever writes into it takes a copy."""
    from pacesetter.jobs.run.train import train

    config = Small(tmp_path_factory.mktemp("runs"))("ppo")
    return Path(train(config, console=Console(quiet=True)).run.folder)


@pytest.fixture
def console() -> Console:
    """One that keeps what is printed: `console.file.getvalue()`."""
    return Console(file=io.StringIO(), width=120)


OPTIONS = [
    *("agent=options", "task.action=continuous", "features.names=[return_1,volatility_20]", "agent.seen_bars=4"),
    *("agent.n_steps=16", "agent.gradient_steps=4", "agent.learning_starts=16", "agent.learning_rate=0.003"),
]


@pytest.fixture(scope="session")
def option_words() -> list[str]:
    """Overrides of a training run of written options that takes seconds."""
    return [*SMALL, *OPTIONS]


@pytest.fixture(scope="session")
def option_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of written options by one agent of all symbols, trained once."""
    from pacesetter.jobs.hydra.resolve import resolve
    from pacesetter.jobs.run.train import train

    runs = tmp_path_factory.mktemp("options")
    config = resolve([*SMALL, *OPTIONS, "agent.rules.min_confidence=0", f"runs={runs}"])
    return Path(train(config, console=Console(quiet=True)).run.folder)


META = [
    *("task=fleet", "agent=meta_smoke", "data=synthetic", "data.symbols=3", "data.bars=300", "data.groups=0"),
    *("features.names=[return_1,regime_downside_share]", "features.leadlag.lookback=null", "task.window_bars=2"),
    *("task.episode_bars=20", "task.retrain_share=0", "task.action=target", "train.envs=8", "train.steps=128"),
    *("agent.batch_size=64", "agent.heads=[8]", "agent.warmup_steps=64", "agent.context=attention"),
    *("track.mlflow=off", "track.tensorboard=off", "track.progress=false"),
]


@pytest.fixture(scope="session")
def meta_words() -> list[str]:
    """Overrides of a training run that takes a second or two."""
    return list(META)


@pytest.fixture(scope="session")
def meta_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of such a run, trained once; whoever writes into it takes a copy."""
    from pacesetter.jobs.hydra.resolve import resolve
    from pacesetter.jobs.run.train import train

    config = resolve([*META, f"runs={tmp_path_factory.mktemp('meta')}"])
    return Path(train(config, console=Console(quiet=True)).run.folder)
