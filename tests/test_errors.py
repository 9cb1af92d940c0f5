"""Messages: a hint when a name comes close, a short list when none does."""

from __future__ import annotations

import pytest

from pacesetter.errors import ConfigError, DataError, PacesetterError, RunError, did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("volum", ["close", "volume"], "; did you mean 'volume'?"),
        ("aapl", ["AAPL", "MSFT"], "; did you mean 'AAPL'?"),
        ("zzz", ["b", "a"], "; known: a, b"),
        ("", [], "; known: none"),
        (
            "zzz",
            [f"n{k:02d}" for k in range(14)],
            "; known: n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10, n11 and 2 more",
        ),
    ],
)
def test_did_you_mean(name: str, known: list[str], said: str) -> None:
    assert did_you_mean(name, known) == said


def test_one_family() -> None:
    assert all(issubclass(kind, PacesetterError) for kind in (ConfigError, DataError, RunError))
