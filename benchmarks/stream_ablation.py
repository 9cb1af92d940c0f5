"""Why the stream encoder learned less than the window transformer: one intervention at a time, on tuning seeds.

    python benchmarks/stream_ablation.py [--seeds 1+2+3] [--markets 0.4+0.8] [--only NAME+NAME] [--folder F] [--record]
                                         [KEY=VALUE …]

Everything else is as in `stream_league.py`. Cells that were played are kept in the folder, so that parts of the table
can be played side by side and put together by a last call.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from record import publish, table
from stream_league import ENTRANTS, STEPS
from torch import nn

from pacesetter.agents.stream import encoder as stream_encoder
from pacesetter.agents.stream.encoder import Stream, StreamEncoder
from pacesetter.lab.league.cell import Cell, play_cell
from pacesetter.lab.league.ladder import MARKETS, seeds_of
from pacesetter.learning.fleet import ppo

Patch = tuple[Any, str, Any]  # owner, attribute, value while an intervention is in force


def bars_scaled(gain: float) -> Patch:
    """The encoding of bars times a number before the account joins."""
    fused = StreamEncoder._fuse_context
    return StreamEncoder, "_fuse_context", lambda self, encoded, context: fused(self, gain * encoded, context)


def account_scaled(gain: float) -> Patch:
    """The account's entries times a number instead."""
    fused = StreamEncoder._fuse_context
    return StreamEncoder, "_fuse_context", lambda self, encoded, context: fused(self, encoded, gain * context)


def begun_with(change: Callable[[StreamEncoder], None]) -> Patch:
    """First weights changed by a function."""
    build = Stream.build

    def changed(self: Stream, shapes: Any) -> Any:
        encoder = build(self, shapes)
        change(encoder)  # type: ignore[arg-type]
        return encoder

    return Stream, "build", changed


def small_start(gain: float) -> Patch:
    """Every layer that adds to the encoding, the embedding too, begins with smaller weights.

    Each layer reads the sum through a norm, so the encoding is the same, times a number.
    """

    def change(encoder: Any) -> None:
        encoder.embed.weight.data.mul_(gain)
        for block in encoder.blocks:
            block.attention.output.weight.data.mul_(gain)
            block.feed_forward[-1].weight.data.mul_(gain)

    return begun_with(change)


def wide_fusion() -> Patch:
    """The account joins by a feed-forward as wide as those of the blocks."""
    build = StreamEncoder._build_window

    def changed(self: Any, bars: int, features: int) -> None:
        build(self, bars, features)
        width, hidden = self.width, self.config.expansion * self.width
        self.fusion = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    return StreamEncoder, "_build_window", changed


class Fed(nn.Module):
    """A feed-forward as those of the blocks, with a residual."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x: Any) -> Any:
        return x + self.layers(x)


def deep_fusion() -> tuple[Patch, Patch]:
    """The account joins by two of them."""
    build = StreamEncoder._build_window

    def changed(self: Any, bars: int, features: int) -> None:
        build(self, bars, features)
        self.fusion = nn.Sequential(*(Fed(self.width, self.config.expansion * self.width) for _ in range(2)))

    fused = (StreamEncoder, "_fuse_context", lambda self, encoded, context: self.fusion(encoded + context))
    return (StreamEncoder, "_build_window", changed), fused


ROWS_ALONE: Patch = (ppo, "streams", lambda encoder: False)
XAVIER: Patch = (stream_encoder, "FIRST_GAIN", 1.0)  # first weights as they were
SMALL: Patch = (stream_encoder, "FIRST_GAIN", 0.03)
STREAM, WINDOWS = "stream_small", "transformer_small"
ABLATIONS: dict[str, tuple[str, *tuple[Patch, ...]]] = {
    "window transformer": (WINDOWS,),
    "stream as it is": (STREAM,),
    "stream as it was": (STREAM, XAVIER),
    "minibatches of single rows": (STREAM, XAVIER, ROWS_ALONE),
    "bars unseen": (STREAM, XAVIER, bars_scaled(0.0)),
    "bars times 0.1": (STREAM, XAVIER, bars_scaled(0.1)),
    "account times 5": (STREAM, XAVIER, account_scaled(5.0)),
    "small start 0.1": (STREAM, XAVIER, small_start(0.1)),
    "small start 0.03": (STREAM, XAVIER, small_start(0.03)),
    "small start 0.1, wide fusion": (STREAM, XAVIER, small_start(0.1), wide_fusion()),
    "small start 0.1, deep fusion": (STREAM, XAVIER, small_start(0.1), *deep_fusion()),
    "blocks begin at 0.03": (STREAM, SMALL),
}


@contextmanager
def in_force(patches: tuple[Patch, ...]) -> Iterator[None]:
    """The interventions, taken back at the end."""
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in patches]
    for owner, name, value in patches:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def play(options: argparse.Namespace, name: str, more: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Sharpe ratio after costs of every cell of an intervention."""
    entrant, *patches = ABLATIONS[name]
    for market in (f"planted {strength}" for strength in options.markets.split("+")):
        for seed in seeds_of(options.seeds):
            # A folder for each: an intervention is no option, so runs of two that begin at once would have one name.
            where = str(options.folder.resolve() / name.replace(" ", "_"))
            with in_force(tuple(patches)):
                overrides = (*(ENTRANTS[entrant] or ()), *more)
                score = play_cell(Cell(where, market, name, seed, MARKETS[market], overrides))
            oracle = play_cell(Cell(where, market, "oracle", seed, MARKETS[market], None))
            print(f"{name} | {market} | {seed} | {score.sharpe:+.2f} | {oracle.sharpe:+.2f}", flush=True)
            yield {"name": name, "market": market, "seed": seed, "sharpe": score.sharpe, "oracle": oracle.sharpe}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1+2+3")
    parser.add_argument("--markets", default="0.4+0.8")
    parser.add_argument("--only", default="+".join(ABLATIONS))
    parser.add_argument("--folder", type=Path, default=Path("runs/stream_ablation"))
    options, rest = parser.parse_known_args()
    more = tuple(text for text in rest if "=" in text)
    found = pd.DataFrame([row for name in options.only.split("+") for row in play(options, name, more)])
    rows = [
        [
            market,
            name,
            " ".join(f"{value:+.2f}" for value in part.sharpe),
            float(part.sharpe.mean()),
            f"{part.sharpe.mean() / part.oracle.mean():.0%}",
        ]
        for (market, name), part in found.groupby(["market", "name"], sort=False)
    ]
    header = ["market", "intervention", f"Sharpe ratio, seeds {options.seeds}", "mean", "of oracle"]
    publish("stream_ablation", f"{STEPS:,} steps.\n\n{table(header, rows)}", "Why the stream encoder learned less")


if __name__ == "__main__":
    main()
