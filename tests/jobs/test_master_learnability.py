"""On a planted market of 143 symbols the master is above the best fixed allocation of the same proposals."""

from __future__ import annotations

from pathlib import Path

import pytest

from pacesetter.evaluation.fleet.account_measures import allocation_gates, measures

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(2))
def test_the_master_is_above_every_fixed_allocation_also_without_leadlag(tmp_path, seed, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from master_planted import BLIND, on_test, planted_fleet, planted_master

    fleet = planted_fleet(tmp_path, seed)
    for more in ([], [BLIND]):
        found = on_test(planted_master(tmp_path, fleet, seed, *more))
        difference = found.difference()
        print(f"{more or 'all entries'}: above {found.best.name} by {difference}")
        assert difference.low > 0
        assert all(gate.passed for gate in allocation_gates(measures(found.master)))
