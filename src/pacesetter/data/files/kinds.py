"""Which source reads a path."""

from __future__ import annotations

import os
from pathlib import Path

from pacesetter.data.files.parquet import ParquetFiles
from pacesetter.data.files.text import CsvFiles
from pacesetter.errors import DataError

__all__ = ["file_source"]


def file_source(path: str) -> str:
    """Which source reads a path: by a file's ending, or by the endings of most files in a folder."""
    kinds = {"csv": CsvFiles.endings, "parquet": ParquetFiles.endings}
    names = [file.name for file in Path(path).iterdir()] if os.path.isdir(path) else [path]
    counts = {kind: sum(name.lower().endswith(endings) for name in names) for kind, endings in kinds.items()}
    if not any(counts.values()):
        known = ", ".join(ending for endings in kinds.values() for ending in endings)
        raise DataError(f"{path} is not a file or folder of bars by its ending ({known}); save it as one of these")
    return max(counts, key=counts.__getitem__)
