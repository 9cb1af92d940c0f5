"""Pictures of the dashboard and of a report in light, dark and on a telephone, taken in a headless Chromium.

    python scripts/screenshots.py RUNS --journal sqlite:///paper/journal.db --out docs/pictures
    python scripts/screenshots.py RUNS --report runs/<run>/evaluation/report.html

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

PAGES = ("runs", "leadlag", "live", "agent", "book", "league", "pareto", "programme")
LOOKS = {  # name -> width, height, scheme, language
    "light": (1366, 900, "light", "en"),
    "dark": (1366, 900, "dark", "en"),
    "phone": (390, 844, "light", "en"),
    "fa": (1366, 900, "light", "fa"),
}
COMMAND = "from pacesetter.cli import app; app()"
IDLE = "document.querySelector('[data-testid=stApp]')?.getAttribute('data-test-script-state') === 'notRunning'"

DRAWN = """!document.querySelector('[data-testid=stSkeleton]') && !document.getElementById('first') &&
[...document.querySelectorAll('[data-testid=stPlotlyChart]')].every(chart => chart.querySelector('.main-svg'))"""


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
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("error: no chromium is installed; install it, e.g. apt install chromium")
    from playwright.sync_api import sync_playwright

    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, served(options.runs, options.journal) as address:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for look in options.looks:
            for name in options.pages:
                place = address if name == "runs" else f"{address}/{name}"  # the first page has no name
                take(browser, place, look, options.out / f"dashboard_{name}_{look}.png", True)
            if options.report is not None:
                take(browser, options.report.resolve().as_uri(), look, options.out / f"report_{look}.png", False)
        browser.close()


if __name__ == "__main__":
    main()
