"""Each family can be deleted: without its folder everything else composes, shows its help and trains.

One process imports the libraries once; for each family a copy of it refuses to import `pacesetter.methods.<family>`.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pacesetter"
FAMILIES = sorted(path.parent.name for path in (SOURCE / "methods").glob("*/__init__.py"))
WHOLE = ["direct", "ppo"]  # whose removal is tried up to a served decision in every test run
# what shows several families or one of them; nothing that trains, evaluates or serves
STILL = {"dashboard/views/agent.py", "lab/demo/demo.py", "lab/programme/phases.py"}
CODE = r"""
import contextlib, io, os, sys, tempfile, traceback
import gymnasium, hydra, numba, pandas, plotly.graph_objects, rich.console, sklearn.linear_model, torch, typer

class Refuse:
    def __init__(self, family):
        self.name = f"pacesetter.methods.{family}"

    def find_spec(self, name, path=None, target=None):
        if name == self.name or name.startswith(self.name + "."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def live_without(family):
    sys.meta_path.insert(0, Refuse(family))
    from pacesetter.cli import main
    from pacesetter.jobs import resolve, train
    sys.argv = ["pacesetter", "--help", "--all"]
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        main()
    assert "Train" in shown.getvalue(), shown.getvalue()
    quiet = ["track.mlflow=off", "track.tensorboard=off", "track.progress=false", f"runs={tempfile.mkdtemp()}"]
    market = ["data=synthetic", "data.symbols=2", "data.bars=300", "features.names=[return_1]", "task.window_bars=2"]
    small = ["agent=ppo", "agent.network=mlp_tiny", "agent.heads=[8]", "train.envs=4", "task.episode_bars=10"]
    small += ["agent.n_steps=8", "agent.batch_size=32"]
    # what is trained is of another family
    other = ["agent=direct"] if family == "ppo" else small
    config = resolve(["task=fleet", *other, *market, "train.steps=64", "train.validate_every=64", *quiet])
    result = train(config, console=rich.console.Console(file=io.StringIO()))
    assert result.steps >= 64, result
    if is_whole:
        serve(result.run.folder)

def serve(folder):
    from pacesetter.evaluation.backtest.backtest import backtest
    from pacesetter.evaluation.stored_run import StoredRun
    from pacesetter.serving.api.runtime import BundlePolicy
    from pacesetter.serving.bundle.packaging import bundle_run
    run = StoredRun(folder)
    bundle = bundle_run(folder, tempfile.mkdtemp(), observations=16)[1]
    options = {"bank": run.bank(run.panel), "window_bars": run.task.window_bars, "market": run.task.market}
    served = backtest(BundlePolicy(bundle), run.panel, first=run.first, last=run.first + 5, **options)
    assert abs(served.orders - run.play().orders[:5]).max() < 1e-5

is_whole = sys.argv[1] == "whole"
for family in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live_without(family)
            code = 0
        except BaseException:
            traceback.print_exc()
            print(f"without {family} this does not work", file=sys.stderr)
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(family, "works" if status == 0 else "FAILS", flush=True)
"""


def live_without(way: str, families: list[str]) -> tuple[dict[str, str], str]:
    """Family -> what became of everything else without it; and what was written to stderr."""
    line = [sys.executable, "-c", CODE, way, *families]
    shown = subprocess.run(line, capture_output=True, text=True, env=os.environ | {"TERM": "dumb"}, check=False)
    return dict(line.split() for line in shown.stdout.splitlines()), shown.stderr


@pytest.fixture(scope="module")
def lives() -> tuple[dict[str, str], str]:
    return live_without("trained", FAMILIES)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("family", FAMILIES)
def test_the_rest_lives_without(family: str, lives: tuple[dict[str, str], str]) -> None:
    assert lives[0].get(family) == "works", lives[1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "families",
    [WHOLE, pytest.param([name for name in FAMILIES if name not in WHOLE], marks=pytest.mark.proof)],
    ids=["first", "others"],
)
def test_a_run_is_bundled_and_decides_without(families: list[str]) -> None:
    became, problems = live_without("whole", families)
    assert became == dict.fromkeys(families, "works"), problems


def test_no_other_package_needs_a_family_to_be_imported() -> None:
    needing = set()
    for path in SOURCE.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        modules = {node.module or "" for node in body if isinstance(node, ast.ImportFrom)}
        if any(name.startswith("pacesetter.methods.") for name in modules):
            needing.add(path.relative_to(SOURCE).as_posix())
    assert {name for name in needing if not name.startswith("methods/")} == STILL
