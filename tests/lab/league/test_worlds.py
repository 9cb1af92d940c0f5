"""The worlds' sized oracle beside that of the reference generator, which is not part of the package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from pacesetter.build import build_panel
from pacesetter.evaluation.backtest.backtest import backtest
from pacesetter.evaluation.baselines.sized import OracleSized
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.features import feature_table
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.comparison import mean_and_half_width
from pacesetter.lab.league.cell import Cell, _yardstick
from pacesetter.lab.league.ladder import WORLDS, markets_of
from pacesetter.lab.league.league import League
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
@pytest.mark.parametrize("world", list(WORLDS))
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
    assert config.data["world"] == world
    assert (costs.commission_bps, costs.impact_bps) == {"persistent": (13.5, 0.0), "impact": (1.0, 50.0)}.get(
        world, (1.0, 0.0)
    )
