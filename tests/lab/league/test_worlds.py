"""The worlds' sized oracle beside that of the reference generator, which is not part of the package."""

from __future__ import annotations

import importlib.util
from dataclasses import fields
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pacesetter.build import build_panel
from pacesetter.data.synthetic import TYPICAL_PRICE, TYPICAL_VOLUME
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.closed_forms import DecayProblem, cushion_growth
from pacesetter.evaluation.baselines.sized import OracleSized
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.lab.league.cell import Cell, Score, _yardstick
from pacesetter.lab.league.ladder import CLOSED, GOALS, WORLDS, markets_of
from pacesetter.lab.league.league import League, league_table
from pacesetter.panel import Panel
from pacesetter.policies.market_rows import market_bank

REFERENCE = Path(__file__).resolve().parents[3] / "../shared/tools/worlds.py"
SEEDS, FIRST = range(1, 7), 2_400


def own_ratio(world: str, seed: int) -> float:
    cell = Cell("", world, "oracle_sized", seed, WORLDS[world], None)
    result = _yardstick(cell, cell.config, build_panel(cell.config))
    return float(sharpe(result.returns, result.bars_per_year))


def reference_ratio(generator: ModuleType, world: str, seed: int) -> float:
    """The product's sized oracle on bars of the reference generator, by the same rules."""
    fields, response = generator.generate(world, seed)
    index = pd.bdate_range("2000-01-03", periods=len(response), tz="UTC") + pd.Timedelta(hours=21)
    symbols = [f"S{number}" for number in range(response.shape[1])]
    panel = Panel.from_fields(index.as_unit("ns"), symbols, fields)
    market = resolve(list(WORLDS[world])).trading.market
    bank = market_bank(panel, feature_table(panel, ["return_1"]))
    truth: object = SimpleNamespace(response=response)
    policy = OracleSized.from_truth(truth, bank, market)  # type: ignore[arg-type]
    result = backtest(policy, panel, first=FIRST, market=market, bank=bank, window_bars=2)
    return float(sharpe(result.returns, result.bars_per_year))


@pytest.mark.proof
@pytest.mark.parametrize("world", [world for world in WORLDS if world not in GOALS])
def test_the_sized_oracle_is_that_of_the_reference_generator(world: str) -> None:
    if not REFERENCE.is_file():
        pytest.skip("../shared/tools/worlds.py is not beside this checkout")
    spec = importlib.util.spec_from_file_location("reference_worlds", REFERENCE)
    assert spec is not None
    assert spec.loader is not None
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    ours = np.array([own_ratio(world, seed) for seed in SEEDS])
    theirs = np.array([reference_ratio(generator, world, seed) for seed in SEEDS])
    # Other draws with the same seed: two samples, of which the difference has both spreads.
    (mean, half), (other, other_half) = (mean_and_half_width(pd.Series(part)) for part in (ours, theirs))
    print(f"{world}: ours {mean:.2f} ± {half:.2f}, reference {other:.2f} ± {other_half:.2f}")
    assert abs(mean - other) < np.hypot(half, other_half)


def test_worlds_are_played_only_where_they_are_named() -> None:
    assert not set(WORLDS) & set(markets_of(()))
    entrants = {cell.entrant for cell in League(markets=("regime",), seeds="1").cells()}
    assert "oracle_sized" in entrants
    assert "oracle_returns" not in entrants  # it knows loadings on returns, and there are none


@pytest.mark.parametrize("world", list(WORLDS))
def test_every_world_composes_with_its_rules(world: str) -> None:
    config = resolve([*WORLDS[world], "seed=1"])
    costs = config.trading.market.costs
    assert config.data.options["world"] == world
    own = {"persistent": (13.5, 0.0), "impact": (1.0, 50.0), "decay": (0.0, 335.0), "cushion": (0.0, 0.0)}
    assert (costs.commission_bps, costs.impact_bps) == own.get(world, (1.0, 0.0))


@pytest.mark.parametrize("world", list(GOALS))
def test_closed_forms_have_what_their_formula_says(world: str) -> None:
    goal, cell = GOALS[world], Cell("", world, CLOSED, 1, WORLDS[world], None)
    panel, market = build_panel(cell.config), cell.config.trading.market
    played = _yardstick(cell, cell.config, panel)
    variance = np.var(np.diff(np.log(panel.close[:FIRST]), axis=0), axis=0)
    assert panel.truth is not None
    if goal.limit:
        expected = cushion_growth(panel.truth.response[0], np.diag(variance), 1 - goal.limit)
        assert played.drawdown.max() < goal.limit
    else:
        cost = 2 * market.costs.impact_bps * 1e-4 * market.initial_cash / (TYPICAL_VOLUME * TYPICAL_PRICE)
        assert panel.truth.signals is not None
        signals, expected = panel.truth.signals[:, FIRST + 1 :], 0.0
        for follower, own in enumerate(variance.tolist()):
            problem = DecayProblem(np.array([0.5, 0.9]), own, goal.aversion, cost / own)
            expected += problem.utility(problem.positions(signals[:, :, follower]), signals[:, :, follower])
    # The formula is the mean over all that may happen, and this is one of it.
    assert goal.worth(played.returns) == pytest.approx(expected, rel=0.2)


def test_shares_are_of_the_closed_form_by_what_its_world_asks_for() -> None:
    entrants = [cell.entrant for cell in League(markets=("decay",), seeds="1").cells()]
    assert CLOSED in entrants
    assert "oracle_sized" not in entrants
    assert CLOSED not in [cell.entrant for cell in League(markets=("regime",), seeds="1").cells()]
    learned = League(markets=("decay", "cushion"), entrants=("direct",), seeds="1").cells()
    assert [cell.config.agent.options["objective"] for cell in learned] == ["mean_variance", "cushion"]
    known = {part.name: 0.0 for part in fields(Score)} | {"market": "decay", "seed": 1}
    rows = [{"entrant": CLOSED, "sharpe": 2.0, "worth": 4.0}, {"entrant": "direct", "sharpe": 6.0, "worth": 3.0}]
    table = league_table(pd.DataFrame([known | row for row in rows])).set_index("entrant")
    assert table.loc["direct", "share"] == pytest.approx(0.75)
