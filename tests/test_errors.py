"""Messages: a hint when a name comes close, a short list when none does; values out of range by their key; extras."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from pacesetter.errors import ConfigError, DataError, PacesetterError, RunError, check_range, did_you_mean, needs


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


@pytest.mark.parametrize(
    ("bounds", "value", "said"),
    [
        ((1,), 0, "lag.step=0 must be 1 or more"),
        ((0, 0.5), 0.75, "lag.step=0.75 must be in 0 … 0.5"),
        ((0,), float("nan"), "lag.step=nan must be 0 or more"),
        ((0,), float("inf"), "lag.step=inf must be 0 or more"),
        ((0,), "2", "lag.step='2' must be 0 or more"),
        ((0,), True, "lag.step=True must be 0 or more"),
    ],
)
def test_out_of_range(bounds: tuple[float, ...], value: object, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_range(*bounds, owner="lag", draws=bounds[0], step=value)
    assert str(refused.value) == said


def test_within_range() -> None:
    check_range(0, 1, share=0, other=1.0, counted=np.int64(1))
    with pytest.raises(ConfigError, match=r"^share=2 must"):
        check_range(0, 1, share=2)


def test_a_missing_library_names_its_extra() -> None:
    said = r"^a fleet needs no_such_library; install it with: pip install 'pacesetter\[rl\]'$"
    with pytest.raises(ConfigError, match=said), needs("a fleet", "rl"):
        importlib.import_module("no_such_library.part")


def test_one_family() -> None:
    assert all(issubclass(kind, PacesetterError) for kind in (ConfigError, DataError, RunError))
