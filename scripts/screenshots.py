"""Pictures of the dashboard and of a report in light, dark and on a telephone, taken in a headless Chromium.

    python scripts/screenshots.py RUNS --journal sqlite:///paper/journal.db --out build/screenshots
    python scripts/screenshots.py RUNS --report runs/<run>/evaluation/report.html
    python scripts/screenshots.py RUNS --make            # makes what is shown first: half an hour on two cores
    python scripts/screenshots.py RUNS --make --keep     # and puts what the pages show into docs/pictures

Look at them before you keep them: a picture that was not looked at proves nothing.
"""

from __future__ import annotations

import argparse
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "pictures"
PAGES = ("runs", "leadlag", "live", "agent", "book", "league", "pareto", "programme")
LOOKS = {  # name -> width, height, scheme, language
    "light": (1366, 900, "light", "en"),
    "dark": (1366, 900, "dark", "en"),
    "phone": (390, 844, "light", "en"),
    "fa": (1366, 900, "light", "fa"),
}
KEPT = {  # picture of a page of the documentation -> what is taken
    "dashboard_book.png": "dashboard_book_light.png",
    "dashboard_leadlag.png": "dashboard_leadlag_light.png",
    "dashboard_league.png": "dashboard_league_light.png",
    "dashboard_runs.png": "dashboard_runs_light.png",
    "dashboard_runs_dark.png": "dashboard_runs_dark.png",
    "report.png": "report_light.png",
    "report_phone.png": "report_phone.png",
}
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")
WORLD: tuple[tuple[str, ...], ...] = (  # what is shown, each kind once; `runs=` is added
    ("run", "data=sample", "job.lookback_steps=2048", "job.draws=200"),
    ("train", "task=fleet", "task.action=target", "agent=mosac", "agent.preferences=8", "+preset=planted",
     "train.steps=512", "name=objectives", *QUIET),
    ("programme", "+preset=prototype_offline", "programme.trials=2", "programme.top=1", "programme.folds=2",
     "job.draws=200", "--despite-no-go"),
)  # fmt: skip
PAPER = ("paper", "momentum", "data=sample", "first=1200", "bars=120")
LEAGUE = (
    *("league", "league.seeds=reporting", "league.entrants=[oracle,oracle_returns,lasso,ridge,hold,direct]"),
    "league.markets=['planted 0.1','planted 0.2','planted 0.4','planted 0.8']",
)
COMMAND = "from pacesetter.cli import app; app()"
IDLE = "document.querySelector('[data-testid=stApp]')?.getAttribute('data-test-script-state') === 'notRunning'"

DRAWN = """!document.querySelector('[data-testid=stSkeleton]') && !document.getElementById('first') &&
[...document.querySelectorAll('[data-testid=stPlotlyChart]')].every(chart => chart.querySelector('.main-svg'))"""


def make_world(runs: Path) -> tuple[str, Path]:
    """Run the commands whose results are shown; the paper trader's journal, and the pipeline's report."""
    paper = runs.parent / "paper"
    commands = [
        *((*words, f"runs={runs}") for words in WORLD),
        (*LEAGUE, f"league.folder={runs / 'league'}"),
        (*PAPER, f"folder={paper}", f"halt_file={paper / 'HALT'}"),
    ]
    for words in commands:
        print("pacesetter", *words, flush=True)
        subprocess.run([sys.executable, "-c", COMMAND, *words], check=True, stdout=subprocess.DEVNULL)
    return f"sqlite:///{paper / 'journal.db'}", next(runs.glob("*-run-*/report.html"))


@contextmanager
def served(runs: Path, journal: str) -> Iterator[str]:
    """The dashboard as its command serves it, on a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["dashboard", str(runs), "--port", str(port), *(["--journal", journal] if journal else [])]
    server = subprocess.Popen([sys.executable, "-c", COMMAND, *words], stdout=subprocess.DEVNULL)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def take(browser: Any, address: str, look: str, target: Path, is_app: bool) -> None:
    width, height, scheme, language = LOOKS[look]
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(f"{address}?language={language}")
    if is_app:
        page.wait_for_function(IDLE, timeout=120_000)
        page.wait_for_function(DRAWN, timeout=120_000)
        page.wait_for_timeout(1500)
    else:
        page.wait_for_selector(".main-svg", timeout=60_000)
    page.screenshot(path=target, timeout=180_000)
    page.close()
    print(f"→ {target}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--journal", default="")
    parser.add_argument("--report", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/screenshots"))
    parser.add_argument("--pages", nargs="+", default=PAGES)
    parser.add_argument("--looks", nargs="+", default=list(LOOKS), choices=list(LOOKS))
    parser.add_argument("--make", action="store_true", help="run the commands whose results are shown first")
    parser.add_argument(
        "--keep", action="store_true", help=f"put what the pages show into {PICTURES.relative_to(ROOT)}"
    )
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("error: no chromium is installed; install it, e.g. apt install chromium")
    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    if options.make:
        options.runs.mkdir(parents=True, exist_ok=True)
        options.journal, options.report = make_world(options.runs.resolve())
    with sync_playwright() as playwright, served(options.runs, options.journal) as address:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look in options.looks:
            for name in options.pages:
                place = address if name == "runs" else f"{address}/{name}"  # the first page has no name
                take(browser, place, look, options.out / f"dashboard_{name}_{look}.png", True)
            if options.report is not None:
                take(browser, options.report.resolve().as_uri(), look, options.out / f"report_{look}.png", False)
        browser.close()
    if options.keep:
        for name, taken in KEPT.items():
            shutil.copy(options.out / taken, PICTURES / name)


if __name__ == "__main__":
    main()
