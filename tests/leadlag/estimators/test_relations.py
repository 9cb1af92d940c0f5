"""The matrix that a policy uses: signs, delays and links by hand, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pacesetter as ps
from pacesetter.errors import ConfigError, RunError
from pacesetter.leadlag.estimators.relations import read_relations
from pacesetter.leadlag.study import Study


def leave(folder: Path, symbols: list[str], until: str = "2000-06-01") -> str:
    """Weights of two lags in which the first symbol leads the second by two bars, opposite in sign."""
    weights = np.zeros((2, len(symbols), len(symbols)))
    weights[1, 0, 1] = -0.4
    told = {"symbols": symbols, "weights": weights.tolist(), "seen_until": until}
    (folder / "relations.json").write_text(json.dumps(told))
    return str(folder)


def test_a_used_weight_is_a_link_with_its_sign_and_delay(tmp_path: Path) -> None:
    market = ps.load("synthetic", symbols=3, bars=300, seed=1)
    run = leave(tmp_path, list(market.symbols))
    lag = ps.LeadLag("policy", run=run).fit(market)
    assert lag.matrix(lookback=100).loc["S0", "S1"] == pytest.approx(0.4)
    links = lag.links(lookback=100)
    assert links[["leader", "follower", "relation", "delay"]].to_numpy().tolist() == [
        ["S0", "S1", "leads, opposite sign", 2.0]
    ]
    result = Study(method="policy", lookback=100, draws=20, engine={"run": run}).run(market)
    assert list(result.network.edges) == [("S0", "S1")]
    assert any("in-sample until then" in note for note in result.panel.notes)


def test_what_a_direct_run_leaves_is_read_back(tmp_path: Path) -> None:
    run = ps.train(
        *("data=synthetic", "task=fleet", "agent=direct", "track.mlflow=off", "track.tensorboard=off"),
        data__symbols=4,
        data__bars=900,
        data__strength=0.9,
        data__groups=1,
        runs=tmp_path,
        train__steps=64,
    )
    symbols, weights, until = read_relations(str(run))
    assert symbols == ("S0", "S1", "S2", "S3")
    assert weights.shape == (5, 4, 4)
    market = ps.load("synthetic", symbols=4, bars=900, strength=0.9, groups=1, seed=0)
    truth = market.truth.delays
    ahead = ps.LeadLag("policy", run=str(run)).fit(market).scores(len(market) - 1, 250)
    used = np.triu(ahead != 0, 1)
    assert used.any()
    assert (np.sign(ahead) == np.sign(truth))[used].mean() > 0.6
    assert until.startswith(str(market.index[719])[:10])  # the end of the validation set: 80 % of 900 bars


def test_other_symbols_and_damaged_files_are_refused(tmp_path: Path) -> None:
    market = ps.load("synthetic", symbols=3, bars=300, seed=1)
    run = leave(tmp_path, ["S0", "S2", "S4"])
    with pytest.raises(ConfigError, match="these differ"):
        ps.LeadLag("policy", run=run).fit(market)
    with pytest.raises(ConfigError, match=r"give lag\.run="):
        ps.LeadLag("policy").fit(market)
    with pytest.raises(RunError, match="cannot be read"):
        ps.LeadLag("policy", run=str(tmp_path / "none")).fit(market)
