"""`pacesetter mcp` asked by a real client over stdio: answers, what is refused, and that nothing is written.

Runs `cli.assistant` and `lab.mcp.answers`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pacesetter as ps

mcp = pytest.importorskip("mcp", reason="`pacesetter mcp` needs the extra mcp")

Ask = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bars of three symbols, a broken file, and a link to a file beside the folder."""
    place = tmp_path_factory.mktemp("mcp")
    (place / "own").mkdir()
    closes = ps.load("synthetic", symbols=3, bars=400, seed=1).to_frame()["close"]
    closes.to_csv(place / "own" / "bars.csv")
    closes.to_csv(place / "secret.csv")
    (place / "own" / "broken.csv").write_text("Date,Close\n31/12/2019,1\n", encoding="utf-8")
    (place / "own" / "link.csv").symlink_to(place / "secret.csv")
    (place / "own" / "empty").mkdir()
    (place / "own" / "many").mkdir()
    (place / "own" / "many" / "A.csv").symlink_to(place / "secret.csv")
    return place / "own"


def talk(folder: Path, conversation: Callable[[Any], Awaitable[None]], *options: str) -> None:
    """Start the server as a client does, and talk to it."""
    words = ["-m", "pacesetter", "mcp", str(folder), *options]
    environment = {name: os.environ[name] for name in os.environ if name.startswith(("PYTHON", "PATH", "NUMBA", "OMP"))}
    server = mcp.StdioServerParameters(command=sys.executable, args=words, env=environment, cwd=str(folder))

    async def run() -> None:
        async with mcp.Client(server, read_timeout_seconds=600) as client:
            await conversation(client)

    asyncio.run(run())


async def ask(client: Any, tool: str, **arguments: object) -> Any:
    """What a tool answers: its object, or the sentence of an error."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text
    return text if result.is_error else json.loads(text)


def digests(folder: Path) -> dict[str, str]:
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_a_client_is_answered_or_refused_in_a_sentence_and_nothing_is_written(folder: Path) -> None:
    before = digests(folder.parent)

    async def conversation(client: Any) -> None:
        await is_answered(client, folder)
        await is_refused(client, folder)

    talk(folder, conversation)
    assert digests(folder.parent) == before


async def is_answered(client: Any, folder: Path) -> None:
    tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == {
        *("files", "check", "leadlag", "selftest", "backtest", "verdict", "decide")
    }
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert await ask(client, "files") == {"bars": ["bars.csv", "broken.csv"], "bundles": []}
    assert (await ask(client, "check", bars="bars.csv"))["bars"] == 400
    found = await ask(client, "leadlag", bars="bars.csv", lookback=250)
    panel = ps.load(folder / "bars.csv")
    ranking = ps.LeadLag("ccf_peak").fit(panel).ranking(lookback=250)
    assert [row["symbol"] for row in found["ranking"]] == ranking.index.tolist()
    assert found["ranking"][0]["leadership"] == pytest.approx(ranking["leadership"].iloc[0])
    held = await ask(client, "backtest", bars="bars.csv", policy="hold")
    summary = ps.backtest("hold", panel).summary()
    assert held["summary"]["sharpe"] == pytest.approx(summary["sharpe"])
    said = await ask(client, "verdict", bars="bars.csv", policy={"S0": 0.2, "S1": 0.1}, options={"costs": 2})
    assert said["headline"] == "No edge found"
    assert "(2 trials)" in said["sentence"]
    again = await ask(client, "verdict", bars="bars.csv", policy="hold")
    assert "(2 trials)" in again["sentence"]  # the same backtest twice is one look
    tested = await ask(client, "selftest", bars="bars.csv", copies=4)
    assert "Where nothing was planted" in tested["sentences"][1]


async def is_refused(client: Any, folder: Path) -> None:
    for name in ("../secret.csv", str(folder.parent / "secret.csv"), "link.csv", "many"):
        said = await ask(client, "check", bars=name)
        assert "is outside the folder that this server reads" in said, name
    assert "does not exist in this folder; it has bars.csv" in await ask(client, "check", bars="none.csv")
    assert "'data.date_format=%d/%m/%Y'" in await ask(client, "check", bars="broken.csv")
    told = await ask(client, "check", bars="bars.csv", reading={"fx": "/etc/passwd"})
    assert "reading option 'fx' is not taken here" in told
    assert "is not a baseline" in await ask(client, "backtest", bars="bars.csv", policy="../runs/a")
    assert "hashes.json is missing" in await ask(client, "decide", bundle="empty", bars="bars.csv")


def test_a_call_that_takes_too_long_or_too_much_is_stopped_and_the_next_one_answers(folder: Path) -> None:
    async def conversation(client: Any) -> None:
        said = await ask(client, "selftest", bars="bars.csv", copies=100)
        assert "the call took longer than 1 s and was stopped" in said
        assert (await ask(client, "files"))["bars"] == ["bars.csv", "broken.csv"]

    talk(folder, conversation, "--seconds", "1")
