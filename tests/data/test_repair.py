"""Repairs: what was observed stays bit for bit, nothing comes from the future unless it is said, and twice is once."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data.repair import REPAIRS, Fill, repair
from pacesetter.errors import ConfigError, DataError
from pacesetter.panel import Panel

SOME = settings(max_examples=40, deadline=None, derandomize=True)


def gappy(seed: int, bars: int = 30, symbols: int = 3, gaps: float = 0.3) -> Panel:
    rng = np.random.default_rng(seed)
    close = 20 * np.exp(np.cumsum(rng.normal(0, 0.1, (bars, symbols)), axis=0))
    opens = close * rng.uniform(0.9, 1.1, close.shape)
    spread = rng.choice([0.0, 1e-15, 0.1], close.shape)  # highs that touch the close, or nearly
    fields = {"open": opens, "high": np.maximum(opens, close) * (1 + spread), "low": np.minimum(opens, close)}
    fields |= {"close": close, "volume": rng.uniform(1, 9, close.shape), "sentiment": rng.random(close.shape)}
    mask = rng.random(close.shape) >= gaps
    mask[bars // 2] = True  # so that `drop` keeps something
    index = pd.DatetimeIndex(np.cumsum(rng.integers(1, 9, bars)) * 3_600_000_000_000, tz="UTC").as_unit("ns")
    blanked = {name: np.where(mask, values, np.nan) for name, values in fields.items()}
    return Panel.from_fields(index, list("ABC")[:symbols], blanked, mask)


@pytest.mark.parametrize("fill", list(REPAIRS))
@given(seed=st.integers(0, 10_000))
@SOME
def test_observed_values_stay_and_twice_is_once(fill: Fill, seed: int) -> None:
    panel = gappy(seed)
    repaired = repair(panel, fill)
    kept = panel.index.isin(repaired.index)
    np.testing.assert_array_equal(repaired.mask, panel.mask[kept])
    seen = np.broadcast_to(repaired.mask, repaired.blocks.shape)
    assert repaired.blocks[seen].tobytes() == panel.blocks[:, kept][seen].tobytes()
    again = repair(repaired, fill)
    assert again == repaired
    assert again.notes == repaired.notes


@pytest.mark.parametrize("fill", ["forward", "drop"])
@given(seed=st.integers(0, 10_000), t=st.integers(0, 29))
@SOME
def test_no_bar_after_t_changes_anything_up_to_t(fill: Fill, seed: int, t: int) -> None:
    panel, other = gappy(seed), gappy(seed + 1)
    mixed = replace(
        panel,
        blocks=np.concatenate([panel.blocks[:, : t + 1], other.blocks[:, t + 1 :]], axis=1),
        mask=np.concatenate([panel.mask[: t + 1], other.mask[t + 1 :]]),
    )
    until = panel.index[t]
    mine = repair(panel, fill).between(None, until)
    assert mine == repair(mixed, fill).between(None, until)
    assert mine.causal


@given(seed=st.integers(0, 10_000))
@SOME
def test_forward_repeats_the_last_close_and_never_a_later_one(seed: int) -> None:
    panel = gappy(seed)
    filled = repair(panel, "forward")
    for column in range(3):
        last = None
        for t in range(len(panel)):
            last = t if panel.mask[t, column] else last
            if last is None:
                assert np.isnan(filled.blocks[:, t, column]).all()
            elif last < t:
                assert {filled[name][t, column] for name in ("open", "high", "low", "close")} == {
                    panel.close[last, column]
                }
                assert filled.volume[t, column] == 0
                assert filled["sentiment"][t, column] == panel["sentiment"][last, column]


@given(seed=st.integers(0, 10_000))
@SOME
def test_interpolation_lies_between_its_neighbours_and_says_so(seed: int) -> None:
    panel = gappy(seed)
    filled = repair(panel, "interpolate")
    assert filled.causal == (filled == panel)
    with np.errstate(invalid="ignore"):
        assert not (filled.high < np.fmax(filled.open, filled.close)).any()
        assert not (filled.low > np.fmin(filled.open, filled.close)).any()
    for column in range(3):
        seen = np.flatnonzero(panel.mask[:, column])
        assert np.isnan(filled.close[: seen[0], column]).all()
        assert np.isnan(filled.close[seen[-1] + 1 :, column]).all()
        for left, right in itertools.pairwise(seen):
            part = filled.close[left : right + 1, column]
            low, high = sorted((part[0], part[-1]))
            assert ((part >= low * (1 - 1e-12)) & (part <= high * (1 + 1e-12))).all()


def test_interpolation_known_answer() -> None:
    index = pd.DatetimeIndex(["2020-01-01", "2020-01-02", "2020-01-05"], tz="UTC")
    volume = [[np.nan], [np.nan], [8.0]]
    panel = Panel.from_fields(index, ["A"], {"close": [[1.0], [np.nan], [5.0]], "volume": volume})
    filled = repair(panel, "interpolate")
    assert filled.close[:, 0].tolist() == [1, 2, 5]
    assert np.isnan(filled.volume[1, 0])  # a volume first seen later is not carried back
    assert not filled.causal
    assert filled.notes == ("1 missing bars interpolated with their next bar: not causal, not for environments",)


def test_drop_keeps_the_moments_all_were_seen() -> None:
    panel = gappy(1)
    kept = repair(panel, "drop")
    assert kept.mask.all()
    assert len(kept) == panel.mask.all(axis=1).sum()
    assert f"{len(panel) - len(kept)} times with a missing bar dropped" in kept.notes[0]
    with pytest.raises(DataError, match=r"data.fill=drop leaves nothing"):
        repair(replace(panel, mask=np.zeros_like(panel.mask)), "drop")


@pytest.mark.parametrize("fill", list(REPAIRS))
def test_a_panel_without_gaps_is_left_alone(fill: Fill) -> None:
    whole = gappy(0, gaps=0)
    assert repair(whole, fill) is whole


def test_backwards_is_not_a_repair() -> None:
    with pytest.raises(ConfigError, match=r"data.fill='backward' is unknown; known: drop, forward, interpolate, none"):
        repair(gappy(0), "backward")  # type: ignore[arg-type]
