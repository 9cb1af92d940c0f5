"""What a person sees of a paper trader: an opening line, a line a minute, and alerts folded."""

from __future__ import annotations

import logging

from pacesetter.evaluation.baselines.catalogue import BASELINES
from pacesetter.serving.trader.display import FoldedAlerts, PaperDisplay
from pacesetter.serving.trader.session import PaperConfig, open_session


def test_alerts_of_a_kind_are_shown_once_and_counted():
    folded = FoldedAlerts()
    shown = [folded.filter(_alert(f"drift: {value}")) for value in (1, 2, 3)]
    assert shown == [True, False, False]
    assert folded.filter(_alert("data age: 5 bars"))
    assert folded.summary() == "alerts folded: drift 3× (latest: 3)"


def _alert(text: str) -> logging.LogRecord:
    return logging.LogRecord("pacesetter.alerts", logging.WARNING, "", 0, text, (), None)


def test_a_trader_opens_with_a_line_and_tells_its_equity(tmp_path):
    data = {"source": "synthetic", "symbols": 3, "bars": 200}
    config = PaperConfig(folder=str(tmp_path), halt_file=str(tmp_path / "HALT"), first=120, bars=3, data=data)
    trader, lines = open_session("equal_weight", config, BASELINES), []
    trader.display = PaperDisplay(trader, lines.append, config.bars)
    trader.display.lines.next = 0.0
    trader.run(config.bars)
    trader.display.close()
    trader.watch.alerts.close()
    trader.journal.close()
    assert lines[0].startswith("paper: equal_weight on 3 symbols, 3 bars, equity 100,000.00; journal sqlite:///")
    assert "pacesetter halt --file" in lines[0]
    assert lines[1].startswith("paper: 1 of 3 bars")
    assert "equity " in lines[1]
