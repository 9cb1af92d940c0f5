"""Tables that earlier commands left in a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from pacesetter.errors import RunError
from pacesetter.words import from_spreadsheets

__all__ = ["read_table"]


def read_table(path: Path, **options: object) -> pd.DataFrame:
    """A stored CSV or Parquet table, `options` being pandas'; refuses one that is missing or damaged, by its path."""
    read: Any = pd.read_csv if path.suffix == ".csv" else pd.read_parquet
    try:
        table: pd.DataFrame = read(path, **options)
    except Exception as problem:  # damaged bytes end in any of a dozen exceptions
        raise RunError(f"{path} is missing or damaged ({type(problem).__name__}); make it again") from problem
    return from_spreadsheets(table) if path.suffix == ".csv" else table
