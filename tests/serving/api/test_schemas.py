"""Names of symbols that a request may hold: any script and inner blanks, nothing that a terminal would obey."""

from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from pacesetter.serving.api.schemas import Symbol

SYMBOL: TypeAdapter[str] = TypeAdapter(Symbol)


@pytest.mark.parametrize("name", ["AAPL", "BRK B", "BTC/USDT", "نماد", "日経"])
def test_symbols_as_files_name_them(name: str) -> None:
    assert SYMBOL.validate_python(name) == name


@pytest.mark.parametrize("name", ["", " A", "A ", "A\nB", "A\x1b[2J", "A\x00", "A\u202eB", "A" * 65])
def test_what_a_terminal_would_obey_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        SYMBOL.validate_python(name)
