"""The tools of `pacesetter mcp FOLDER`, over standard input and output, for a client of the Model Context Protocol."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations

from pacesetter import __version__
from pacesetter.errors import PacesetterError
from pacesetter.lab.mcp import answers
from pacesetter.lab.mcp.bounds import BoundedWorker
from pacesetter.lab.mcp.folder import Folder

__all__ = ["make_server", "serve"]

ABOUT = (
    "Lead–lag, self-test, backtest, verdict and decision on the bars and bundles of one folder, read-only. Paths are "
    "those that `files` lists. `reading` says how a file is read, e.g. {'stamp': 'open', 'calendar': 'XNYS'}. Every "
    "verdict counts all backtests of the same bars in this session. Nothing here is investment advice."
)
Answer = dict[str, Any]
Policy = str | dict[str, float]


def serve(path: Path, seconds: float, memory: int) -> None:
    """Answer until the client goes, by the end of its input or, as clients that do not wait, by SIGTERM."""
    folder = Folder.open(path)
    bounds = BoundedWorker(seconds, memory, answers.__name__)

    def leave(*_: object) -> None:
        bounds.close()
        os._exit(0)  # a call in a thread would be waited for

    signal.signal(signal.SIGTERM, leave)
    try:
        make_server(folder, bounds).run("stdio")
    finally:
        bounds.close()


def make_server(folder: Folder, bounds: BoundedWorker) -> MCPServer:
    """A server whose tools read the folder and nothing else."""
    server = MCPServer("pacesetter", instructions=ABOUT, version=__version__, log_level="WARNING")
    tool = server.tool(annotations=ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False))
    tried: dict[Path, set[str]] = defaultdict(set)  # backtests of each file in this session

    def answer(compute: Callable[..., Answer], *arguments: object) -> Answer:
        try:
            return bounds.call(compute, *arguments)
        except PacesetterError as problem:
            raise ToolError(str(problem)) from None

    def at(name: str) -> Path:
        try:
            return folder.inside(name)
        except PacesetterError as problem:
            raise ToolError(str(problem)) from None

    def count(bars: Path, *asked: object) -> int:
        tried[bars].add(repr(asked))
        return len(tried[bars])

    @tool
    def files() -> Answer:
        """List the files of bars and the bundles in the folder."""
        return dict(folder.list())

    @tool
    def check(bars: str, reading: Answer | None = None) -> Answer:
        """Load a file or folder of bars: span, symbols, fields, notes; a rule that is broken is named with its row."""
        return answer(answers.check, at(bars), reading or {})

    @tool
    def leadlag(
        bars: str, method: str = "ccf_peak", lookback: int | None = None, reading: Answer | None = None
    ) -> Answer:
        """Who leads over the latest `lookback` bars: a ranking with intervals, and links that are beyond chance."""
        return answer(answers.leadlag, at(bars), reading or {}, method, lookback)

    @tool
    def selftest(bars: str, copies: int = 20, reading: Answer | None = None) -> Answer:
        """The smallest relation that would be found on bars like these, and what is claimed where nothing is."""
        return answer(answers.selftest, at(bars), reading or {}, copies)

    @tool
    def backtest(bars: str, policy: Policy, options: Answer | None = None, reading: Answer | None = None) -> Answer:
        """Play a baseline by name, or {symbol: weight}, with costs and limits; options such as {"costs": 2}."""
        path = at(bars)
        count(path, policy, options, reading)
        return answer(answers.backtest, path, reading or {}, policy, options or {})

    @tool
    def verdict(
        bars: str,
        policy: Policy,
        against: list[str] | None = None,
        options: Answer | None = None,
        reading: Answer | None = None,
    ) -> Answer:
        """What a backtest is evidence for beside cash and baselines, with intervals and all trials counted."""
        path = at(bars)
        trials = count(path, policy, options, reading)
        return answer(answers.verdict, path, reading or {}, policy, options or {}, against or ["hold"], trials)

    @tool
    def decide(bundle: str, bars: str, reading: Answer | None = None) -> Answer:
        """What a bundle decides for the bar after the last one of `bars`: held, wanted, order, limit, why."""
        return answer(answers.decide, at(bundle), at(bars), reading or {})

    return server
