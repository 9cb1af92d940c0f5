"""Run the browser, kill and worker tests many times beside two busy processes: `python scripts/steady.py TIMES`.

A test that wins a race on an idle machine loses it here. Ends with exit 1 where any of them failed.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time

BUSY = 2
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


def main(times: int) -> int:
    """Print a line for each round and what failed in it; gives the exit status."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    machine = f"{platform.platform()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(f"commit {commit.stdout.strip()}; {machine}; {times} rounds beside {BUSY} busy processes", flush=True)
    busy = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(BUSY)]
    try:
        failed = sum(not run_round(number) for number in range(1, times + 1))
    finally:
        for process in busy:
            process.kill()
    print(f"{times - failed} of {times} rounds passed")
    return int(failed > 0)


def run_round(number: int) -> bool:
    """Whether all tests passed."""
    started = time.monotonic()
    line = [sys.executable, "-m", "pytest", "--tb=short", "-m", "not proof", *TESTS]
    ran = subprocess.run(line, capture_output=True, text=True, check=False)
    summary = (ran.stdout.strip().splitlines() or ["no output"])[-1]
    is_whole = ran.returncode == 0
    print(f"round {number}: {summary} ({time.monotonic() - started:.0f} s)", flush=True)
    if not is_whole:
        print(ran.stdout[-20_000:] + ran.stderr[-2_000:], flush=True)
    return is_whole


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
