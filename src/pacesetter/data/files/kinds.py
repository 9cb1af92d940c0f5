"""Which source reads a path."""

from __future__ import annotations

import os
from pathlib import Path

from pacesetter.errors import DataError

__all__ = ["ENDINGS", "file_source"]

ENDINGS = {"csv": (".csv", ".csv.gz", ".tsv", ".txt"), "parquet": (".parquet", ".pq")}  # by source


def file_source(path: str) -> str:
    """Which source reads a path: by a file's ending, or by the endings of most files in a folder."""
    names = [file.name for file in Path(path).iterdir()] if os.path.isdir(path) else [path]
    counts = {kind: sum(name.lower().endswith(endings) for name in names) for kind, endings in ENDINGS.items()}
    if not any(counts.values()):
        known = ", ".join(ending for endings in ENDINGS.values() for ending in endings)
        raise DataError(f"{path} is not a file or folder of bars by its ending ({known}); save it as one of these")
    return max(counts, key=counts.__getitem__)
