"""Run the browser, kill and worker tests many times beside busy processes: `python scripts/steady.py TIMES`.

    python scripts/steady.py 30                        one round after another, beside two busy processes
    python scripts/steady.py 30 --at-once 4 --busy 0   four rounds at once on a machine that is busy anyway

A test that wins a race on an idle machine loses it here. Ends with exit 1 where any of them failed.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

SPIN = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"  # until this process has ended
TESTS = (
    "tests/dashboard/test_browser.py",
    "tests/evaluation/report/test_judgement_page.py",
    "tests/evaluation/statistics/test_trials.py",
    "tests/faults/test_disk.py",
    "tests/test_locks.py",
    "tests/learning/test_workers.py",
    "tests/jobs/launch/test_worker_pool.py",
    "tests/jobs/test_resume.py",
    "tests/serving/api/test_app.py",
    "tests/serving/api/test_overload.py",
    "tests/serving/api/test_server.py",
    "tests/serving/journal/test_journal.py",
    "tests/serving/risk/test_halt.py",
    "tests/serving/trader/test_faults.py",
    "tests/serving/trader/test_paper.py",
    "tests/serving/trader/test_waiting.py",
    "tests/serving/trader/test_venue.py",
    "tests/serving/trader/test_ccxt_broker.py",
    "tests/serving/trader/test_alpaca.py",
    "tests/contracts/test_brokers.py",
)


def main(times: int, at_once: int, busy: int) -> int:
    """Print a line for each round and what failed in it; gives the exit status."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    how = f"{times} rounds, {at_once} at once, beside {busy} busy processes"
    print(f"commit {commit.stdout.strip()}; {machine}; {how}", flush=True)
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(busy)]
    try:
        with ThreadPoolExecutor(at_once) as rounds:
            failed = sum(not is_whole for is_whole in rounds.map(run_round, range(1, times + 1)))
    finally:
        for process in spinning:
            process.kill()
    print(f"{times - failed} of {times} rounds passed")
    return int(failed > 0)


def run_round(number: int) -> bool:
    """Whether all tests passed."""
    started = time.monotonic()
    line = [sys.executable, "-m", "pytest", "--tb=short", "-m", "not proof", *TESTS]
    # A session of its own: Linux shares the processor among sessions first.
    ran = subprocess.run(line, capture_output=True, text=True, check=False, start_new_session=True)
    summary = (ran.stdout.strip().splitlines() or ["no output"])[-1]
    is_whole = ran.returncode == 0
    told = [f"round {number}: {summary} ({time.monotonic() - started:.0f} s, load {os.getloadavg()[1]:.1f})"]
    if not is_whole:
        told += [ran.stdout[-20_000:], ran.stderr[-2_000:]]
    print("\n".join(told), flush=True)
    return is_whole


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", type=int)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--busy", type=int, default=2)
    asked = parser.parse_args()
    raise SystemExit(main(asked.times, asked.at_once, asked.busy))
