"""What looks ahead is refused: any function of a panel, and features of plugins by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, DataError
from pacesetter.features import Feature
from pacesetter.features.causality import altered_after
from pacesetter.policies.policy import Policy


@pytest.fixture(scope="module")
def market() -> ps.Panel:
    return ps.load("synthetic", symbols=3, bars=300, seed=1)


def tomorrow(panel: ps.Panel) -> Any:
    return np.roll(panel.close, -1, axis=0)


def smoothed(panel: ps.Panel) -> Any:
    return np.cumsum(np.log(panel.close), axis=0)


def scaled(panel: ps.Panel) -> Any:
    return panel.close / np.nanmax(panel.close)


def test_bars_up_to_t_stay_and_later_ones_move(market: ps.Panel) -> None:
    up, down = (altered_after(market, 200, seed=0, side=side) for side in (1.0, -1.0))
    assert np.array_equal(up.blocks[:, :201], market.blocks[:, :201])
    seen = up.mask[201:]
    moved = np.log(up.close[201:] / market.close[201:])[seen], np.log(down.close[201:] / market.close[201:])[seen]
    assert np.allclose(moved[0], -moved[1])
    assert np.abs(moved[0]).max() > 0.1
    assert not up.mask[201:].all()


@pytest.mark.parametrize("function", [tomorrow, scaled, lambda panel: panel.mask.sum(axis=0) * np.ones((300, 1))])
def test_a_function_that_reads_later_bars_is_refused(market: ps.Panel, function: Callable[..., Any]) -> None:
    with pytest.raises(DataError, match=r"looks ahead: when bars after 20.* change, its value for 'S\d' at .* changes"):
        ps.check_causal(function, market)


def test_the_close_of_a_week_at_all_its_days_is_refused_at_whichever_day_it_is_tried(market: ps.Panel) -> None:
    def weekly(panel: ps.Panel) -> Any:
        closes = panel.to_frame()["close"]
        return closes.groupby([closes.index.isocalendar()[part].to_numpy() for part in ("year", "week")]).transform(
            "last"
        )

    last = np.flatnonzero(np.diff(market.index.isocalendar().week) != 0)  # of each week
    assert last[20] < len(market) - 2
    for t in (int(last[20]), int(last[20]) - 1):
        with pytest.raises(DataError, match="weekly looks ahead"):
            ps.check_causal(weekly, market, t=market.index[t])


def test_causal_functions_frames_and_policies_pass(market: ps.Panel) -> None:
    ps.check_causal(smoothed, market)
    ps.check_causal(lambda panel: panel.to_frame()["close"].rolling(5).mean(), market, t="2000-11-01")
    ps.check_causal("hold", market)
    ps.check_causal(lambda seen: [0.1, 0.0, 0.05], market)
    ps.check_causal(lambda seen: (seen.panel.close[seen.t] > seen.panel.close[seen.t - 1]) * 0.1, market)


@dataclass(frozen=True)
class Peeks(Policy):
    """Holds what will rise by the whole panel that it was made with."""

    panel: ps.Panel
    name: str = "peeks"
    action: str = "target"

    def decide(self, seen: Any) -> Any:
        return (self.panel.close[seen.t] < self.panel.close[seen.t + 1]) * 0.1


def test_a_policy_that_keeps_the_panel_it_was_made_with_is_refused(market: ps.Panel) -> None:
    with pytest.raises(DataError, match="policy 'peeks' looks ahead"):
        ps.check_causal(Peeks, market)


def test_what_gives_no_row_for_each_bar_is_refused(market: ps.Panel) -> None:
    with pytest.raises(ConfigError, match=r"<lambda> gave shape \(3,\) for 300 bars; give a row for each bar"):
        ps.check_causal(lambda panel: panel.close[-1], market)
    with pytest.raises(ConfigError, match="t=299 leaves no bars to alter"):
        ps.check_causal(smoothed, market, t=299)


def test_a_plugins_feature_is_tried_before_it_is_used(market: ps.Panel) -> None:
    ps.feature_table(market, ["return_1"], [Feature("own", ("close",), 5, smoothed)])
    with pytest.raises(DataError, match=r"feature 'peeks' looks ahead: .*let row t use bars up to t only"):
        ps.feature_table(market, ["return_1"], [Feature("peeks", ("close",), 1, tomorrow)])
