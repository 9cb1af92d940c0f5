"""The whole page in a real browser, as a reader uses it; screenshots and times are printed with -s.

Runs `dashboard.first`, `dashboard.views.window`.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pacesetter.serving.journal.journal import Journal

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = {"Runs": "", "Lead–lag": "leadlag", "Training live": "live", "Agent": "agent", "Book": "book"}
PAGES |= {"Programme": "programme"}
COMMAND = "import typer; from pacesetter.cli.dashboard import register; app = typer.Typer(); register(app); app()"
IDLE = "document.querySelector('[data-testid=stApp]')?.getAttribute('data-test-script-state') === 'notRunning'"
DRAWN = """!document.querySelector('[data-testid=stSkeleton]')
  && [...document.querySelectorAll('[data-testid=stPlotlyChart]')].every(chart => chart.querySelector('.main-svg'))"""
TIMED = """slider => {
  const before = slider.getRootNode().querySelector('.sentence').textContent
  slider.redrawn = new Promise(done => slider.addEventListener('input', () => {
    const start = performance.now()
    const look = () => {
      const isNew = slider.getRootNode().querySelector('.sentence').textContent !== before
      requestAnimationFrame(isNew ? () => done(performance.now() - start) : look)
    }
    look()
  }, { once: true }))
}"""
# The page itself keeps when its first view was there: who looks from outside may come after it is gone.
WATCHED = """new MutationObserver((_, observer) => {
  if (document.querySelector('#first td')) {
    window.firstView = performance.now()
    observer.disconnect()
  }
}).observe(document, { childList: true, subtree: true })"""
WAIT_MS = 120_000  # for a state that comes; only a page that never gets there waits so long
LAPTOP = {"width": 1366, "height": 768}

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="NO BROWSER: the dashboard is NOT tested; install chromium")


@pytest.fixture(scope="module")
def served(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the runs, to which a test may add."""
    return Path(shutil.copytree(runs, tmp_path_factory.mktemp("served") / "runs"))


@pytest.fixture(scope="module")
def trader(journal: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journal]:
    """A copy of the journal, opened as its trader has it, so that a test may write."""
    path = Path(journal.removeprefix("sqlite:///"))
    opened = Journal(f"sqlite:///{shutil.copy(path, tmp_path_factory.mktemp('journal'))}", "paper")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def address(served: Path, trader: Journal) -> Iterator[str]:
    """The dashboard as its command serves it, on a free port of the loopback address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    line = [sys.executable, "-c", COMMAND, str(served), "--journal", str(trader.engine.url), "--port", str(port)]
    log = served.with_name("log")
    with log.open("wb") as stream:
        server = subprocess.Popen(line, cwd=served.parent, stdout=stream, stderr=stream)
        try:
            _wait(f"http://127.0.0.1:{port}/_stcore/health", server, log)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(600)


def _wait(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(480):
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            time.sleep(0.25)
    pytest.fail(f"the server does not answer: {log.read_text()}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def complaints() -> list[str]:
    """What the browser's console complained of."""
    return []


@pytest.fixture(scope="module")
def page(browser: Any, address: str, complaints: list[str]) -> Any:
    """The dashboard at a laptop's width; how long its first view and its table take is printed, cold and warm."""
    opened = browser.new_page(viewport=LAPTOP, accept_downloads=True)
    opened.set_default_timeout(WAIT_MS)  # of clicks too
    opened.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.add_init_script(WATCHED)
    for name in ("cold", "warm"):
        opened.goto(address, wait_until="commit")
        opened.get_by_test_id("stDataFrame").first.wait_for(timeout=WAIT_MS)
        opened.locator("#first").wait_for(state="detached", timeout=WAIT_MS)
        seen, table = opened.evaluate("[window.firstView, performance.now()]")
        assert seen is not None, "the first view was never on the page"
        print(f"\nfirst view of the runs, {name}: {seen / 1000:.2f} s; their table: {table / 1000:.2f} s")
        settled(opened)
    return opened


@pytest.fixture(autouse=True)
def quiet(complaints: list[str]) -> Iterator[None]:
    """No test may make the console complain."""
    yield
    assert complaints == []


def settled(page: Any) -> None:
    """Wait until the script has run and every chart is drawn."""
    page.wait_for_function(IDLE, timeout=WAIT_MS)
    page.wait_for_function(DRAWN, timeout=WAIT_MS)


def go(page: Any, name: str) -> None:
    page.get_by_role("link", name=name, exact=True).click()
    page.wait_for_url(f"**/{PAGES[name]}", timeout=WAIT_MS)
    settled(page)


def open_tab(page: Any, name: str, text: str) -> None:
    """Open a tab and wait for its text. A click on a page that is being redrawn is lost; a reader clicks again."""
    from playwright.sync_api import TimeoutError as NotShown

    for _ in range(9):
        settled(page)
        page.get_by_role("tab", name=name).click()
        with suppress(NotShown):
            page.get_by_text(text).first.wait_for(timeout=10_000)
            return
    pytest.fail(f"the tab {name} never showed: {text}")


def keep(page: Any, name: str, tmp_path: Path) -> None:
    """A screenshot as a test artefact."""
    folder = Path(os.environ.get("PACESETTER_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"dashboard_{name}.png")


def test_every_page_opens_without_complaint(page, tmp_path):
    for name in PAGES:
        go(page, name)
        assert page.get_by_test_id("stException").count() == 0
        banner = page.get_by_test_id("stAlert").filter(has_text="HALTED")
        if name == "Book":
            banner.first.wait_for(timeout=WAIT_MS)
        else:
            assert banner.count() == 0  # the journal is of old bars: no page but its own says that it is halted
        width = page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth")
        assert width <= LAPTOP["width"]
        keep(page, name.replace("–", "").replace(" ", "_").lower(), tmp_path)


def test_a_filter_narrows_the_runs(page):
    go(page, "Runs")
    page.get_by_test_id("stCaptionContainer").get_by_text("5 of 5 runs").first.wait_for(timeout=WAIT_MS)
    page.get_by_role("combobox", name="task").first.click()
    page.get_by_role("option", name="job", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_text("1 of 5 runs").first.wait_for(timeout=WAIT_MS)


def window_bars(sentence: str) -> int:
    """The length of the window in a sentence as `A ranks first by ccf_peak over 250 trading days to 2001-03-23.`"""
    return int(re.findall(r" over ([\d,]+) ", sentence)[0].replace(",", ""))


def test_a_slider_redraws_the_window_by_the_keyboard(page, tmp_path):
    go(page, "Lead–lag")
    slider, sentence = page.get_by_role("slider", name="Lookback"), page.locator(".sentence")
    sentence.get_by_text(re.compile(r" over [\d,]+ ")).first.wait_for(timeout=WAIT_MS)
    before = window_bars(sentence.inner_text())
    assert page.locator(".matrix figcaption").inner_text().startswith("Leadership by")
    times = []
    for _ in range(9):
        slider.evaluate(TIMED)
        slider.press("ArrowLeft")
        times.append(slider.evaluate("slider => slider.redrawn"))
    print(f"slider: {sorted(times)[4]:.0f} ms from the key to the new picture of 20 symbols (median of 9)")
    assert window_bars(sentence.inner_text()) == before - 9
    page.get_by_role("slider", name="Window ends on").press("Home")
    page.locator(".end-told").get_by_text(": 20").first.wait_for(timeout=WAIT_MS)
    assert window_bars(sentence.inner_text()) <= before - 9
    keep(page, "slider", tmp_path)


def test_a_new_line_of_metrics_appears_by_itself(page, served):
    go(page, "Training live")
    page.get_by_text("300 of 1,000 steps").first.wait_for(timeout=WAIT_MS)
    path = next(served.glob("*-live-*")) / "metrics.jsonl"
    start = time.perf_counter()
    with path.open("a") as stream:
        stream.write('\n{"step": 500, "reward": 5.0, "entropy": 1.5}\n')
    page.get_by_text("500 of 1,000 steps").first.wait_for(timeout=WAIT_MS)
    print(f"a new line of metrics is on the page after {time.perf_counter() - start:.1f} s")


def test_what_a_trader_writes_is_on_the_book_by_itself(page, trader):
    go(page, "Book")
    state = page.get_by_test_id("stMetricValue")
    state.get_by_text("HALTED", exact=True).first.wait_for(timeout=WAIT_MS)
    times = []
    for kind, name in (("resume", "active"), ("halt", "HALTED"), ("resume", "active"), ("halt", "HALTED")):
        start = time.perf_counter()
        trader.note(kind, "drilled by the test")
        state.get_by_text(name, exact=True).first.wait_for(timeout=WAIT_MS)
        times.append(time.perf_counter() - start)
    print(f"what a trader writes is on the book after {sorted(times)[2]:.1f} s (of {len(times)})")


def test_the_trades_are_downloaded(page):
    go(page, "Book")
    with page.expect_download(timeout=WAIT_MS) as download:
        page.get_by_role("button", name="Save trades.csv").click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert download.value.suggested_filename == "trades.csv"
    assert lines[0].startswith("time,symbol,quantity,price")
    assert len(lines) > 3


def test_the_keyboard_reaches_the_pages(page):
    go(page, "Runs")
    page.get_by_role("link", name="Book", exact=True).focus()
    page.keyboard.press("Enter")
    page.get_by_text("Risk state").first.wait_for(timeout=WAIT_MS)


def test_other_tabs_and_the_fleet(page, tmp_path):
    go(page, "Lead–lag")
    open_tab(page, "Leadership over time", "Concentration of leading")
    keep(page, "leadership", tmp_path)
    go(page, "Agent")
    open_tab(page, "Replay", "trades closed")
    keep(page, "replay", tmp_path)
    page.get_by_test_id("stSelectbox").first.get_by_role("combobox").click()
    page.get_by_role("option", name="fleet").click()
    open_tab(page, "Fleet", "agents above the bar")
    keep(page, "fleet", tmp_path)
