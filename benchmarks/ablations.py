"""Ablations at a small size on tuning seeds: what actions, and parts of the observation, are worth to PPO.

python benchmarks/ablations.py [--presets actions features] [--seeds 1+2] [--name ablations] [--record] [KEY=VALUE …]
"""

from __future__ import annotations

import argparse
import math

from record import publish, table
from rich.console import Console

from pacesetter.training.league.ablation import JUDGED, ablate, load_ablation


def section(preset: str, seeds: str, folder: str, more: list[str]) -> str:
    """One ablation as a table."""
    stored = load_ablation(preset)
    judging = JUDGED[stored.judged]
    asked = [f"ablate={preset}", f"ablate.seeds={seeds}", f"ablate.folder={folder}/{preset}", *more]
    rows = [
        [
            *(row["variant"], row["runs"], f"{row['mean']:+.2f}"),
            "" if math.isnan(row["gap"]) else f"{row['gap']:+.2f} ± {row['gap_half_width']:.2f}",
            "" if math.isnan(row["p"]) else f"{row['p']:.3f}",
            *(format(row[name], style) for name, (_, style) in judging.columns.items()),
        ]
        for row in ablate(asked, Console(quiet=True)).to_dict("records")
    ]
    told = f"Market `{stored.markets[0]}`, tuning seeds {seeds}; {', '.join(more) or 'as shipped'}."
    titles = [title for title, _ in judging.columns.values()]
    header = ["variant", "seeds", judging.title, "less the full method", "p", *titles]
    return f"## {preset}\n\n{told}\n\n{table(header, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--presets", nargs="+", default=["actions", "features"])
    parser.add_argument("--seeds", default="1+2")
    parser.add_argument("--folder", default="runs/ablate")
    parser.add_argument("--name", default="ablations")
    parser.add_argument("--title", default="Ablations of PPO")
    asked, rest = parser.parse_known_args()
    more = [text for text in rest if "=" in text]
    parts = [section(preset, asked.seeds, asked.folder, more) for preset in asked.presets]
    publish(asked.name, "\n\n".join(parts), asked.title)


if __name__ == "__main__":
    main()
