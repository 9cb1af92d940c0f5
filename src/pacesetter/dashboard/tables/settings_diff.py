"""In which settings runs differ, by key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pacesetter.runs import read_yaml

__all__ = ["config_differences"]

ABSENT = "–"
SAID_ELSEWHERE = ("name", "runs", "schema")  # the table of runs has them


def config_differences(folders: Mapping[str, Path]) -> pd.DataFrame:
    """(key, run) values of the keys in which the configurations of these runs differ, as texts."""
    texts = {name: (folder / "config.yaml").read_text(encoding="utf-8") for name, folder in folders.items()}
    stored = {name: _flatten(read_yaml(text)) for name, text in texts.items()}
    keys = sorted({key for values in stored.values() for key in values if key not in SAID_ELSEWHERE})
    rows = {key: {name: values.get(key, ABSENT) for name, values in stored.items()} for key in keys}
    different = {key: row for key, row in rows.items() if len(set(row.values())) > 1}
    return pd.DataFrame.from_dict(different, orient="index", columns=list(stored)).rename_axis("key").reset_index()


def _flatten(content: object, before: str = "") -> dict[str, str]:
    if isinstance(content, dict) and content:
        parts = [_flatten(value, f"{before}.{key}" if before else str(key)) for key, value in content.items()]
        return {key: value for part in parts for key, value in part.items()}
    return {before: str(content)}
