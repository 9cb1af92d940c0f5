"""What each option of the lead–lag study costs beside the default, and what it says where that is much.

    python benchmarks/leadlag_options.py --record

One study for each option, `Study.run`: answer, null, intervals, time line, strategy and groups. Compiled before;
processor seconds. What is said goes to stderr, before the work begins and from the third second on.
"""

from __future__ import annotations

import contextlib
import io
import time

from record import publish, table

import pacesetter as ps
from pacesetter.leadlag.study import configure_study
from pacesetter.panel import Panel

SYMBOLS, BARS, MUCH, LONG = 20, 1_500, 5.0, 3.0  # the last in seconds
OPTIONS: tuple[dict[str, object], ...] = (
    *({"increments": name} for name in ("simple", "ranked", "winsorised")),
    *({"residual": name} for name in ("market", "pca(2)")),
    *({"thin": "exclude"}, {"control": "by"}, {"test": "differs"}, {"test": "either"}, {"clusters": 3}),
    *({"method": name} for name in ("ccf_lag1", "ccf_auc", "levy_path", "levy_returns", "signature", "dtw")),
    *({"method": name} for name in ("hayashi_yoshida", "granger", "learned", "mutual_information")),
    {"method": "transfer_entropy"},
)


def measure(panel: Panel, options: dict[str, object]) -> tuple[float, str]:
    """Processor seconds of a study, and the first line that it says."""
    said = io.StringIO()
    with contextlib.redirect_stderr(io.StringIO()):
        configure_study(options | {"draws": 4}).run(panel.rows(0, 200))  # compiles
    with contextlib.redirect_stderr(said):
        started = time.process_time()
        configure_study(options).run(panel)
        taken = time.process_time() - started
    return taken, (said.getvalue().splitlines() or ["–"])[0]


def main() -> None:
    panel = ps.load("synthetic", symbols=SYMBOLS, bars=BARS, seed=1)
    usual = measure(panel, {})[0]
    rows = [("default", round(usual, 2), 1.0, "–")]
    for options in OPTIONS:
        taken, said = measure(panel, options)
        rows.append((", ".join(f"{k}={v}" for k, v in options.items()), round(taken, 2), taken / usual, said))
        print(rows[-1], flush=True)
    silent = [row[0] for row in rows if row[2] > MUCH and row[1] > LONG and row[3] == "–"]
    body = (
        f"{SYMBOLS} symbols × {BARS:,} bars. Above {MUCH:g} × and {LONG:g} s without a word: "
        f"{', '.join(silent) or 'none'}. What is expected to end within {LONG:g} s says nothing.\n\n"
        + table(("option", "processor s", "× default", "said first"), rows)
    )
    publish("leadlag_options", body, "What the options of the lead–lag study cost")


if __name__ == "__main__":
    main()
