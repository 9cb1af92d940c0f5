"""Tables of other libraries, Polars and Arrow among them, by narwhals: read as pandas, given back as they came."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import pandas as pd

from pacesetter.errors import DataError

__all__ = ["PANDAS", "as_kind", "is_table", "kind_of", "read_table"]

PANDAS = "pandas"
Frame = TypeVar("Frame", bound="pd.DataFrame | pd.Series[float]")


def is_table(value: object) -> bool:
    """Whether a value is a table of any library that narwhals knows."""
    if isinstance(value, pd.DataFrame):
        return True
    import narwhals as nw

    wrapped = nw.from_native(value, pass_through=True)
    return isinstance(wrapped, (nw.DataFrame, nw.LazyFrame))


def kind_of(value: Any) -> str:
    """The library of a table, by name; pandas for whatever is not a table."""
    if isinstance(value, pd.DataFrame) or not is_table(value):
        return PANDAS
    import narwhals as nw

    return str(nw.from_native(value).implementation.value)


def read_table(value: Any) -> pd.DataFrame:
    """A table as pandas has it; refuses one that was not computed yet."""
    if isinstance(value, pd.DataFrame):
        return value
    import narwhals as nw

    table = nw.from_native(value)
    if isinstance(table, nw.LazyFrame):
        raise DataError(f"a {type(value).__name__} holds no rows yet; give what its collect() returns")
    frame: pd.DataFrame = table.to_pandas()
    return frame


def as_kind(frame: Frame, kind: str) -> Frame:
    """A result of ours as a table of another library: its index becomes its first columns."""
    if kind == PANDAS:
        return frame
    import narwhals as nw
    import pyarrow as pa

    table = frame.reset_index() if isinstance(frame, pd.DataFrame) else frame.to_frame().reset_index()
    table.columns = [_name(name) for name in table.columns]
    rows = pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None)
    # Typed as what pandas users get: other types cannot be named without their library.
    return cast("Frame", nw.from_arrow(rows, backend=cast("Any", kind)).to_native())


def _name(name: object) -> str:
    """A column's name as one text; the index of moments, which has none, is the time."""
    if isinstance(name, tuple):
        return "_".join(str(part) for part in name if str(part))
    return "time" if name == "index" else str(name)
