"""The master learns, repeats and resumes bit-exactly; agents that are trained along may not forget their trade."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pacesetter.agents.agent import ACTION_MASK, CONFIDENCE, PROPOSALS
from pacesetter.agents.encoders import network
from pacesetter.agents.fleet import Fleet
from pacesetter.data.synthetic import Synthetic
from pacesetter.envs.batch.account_entries import BUYS, SELLS, PositionEntry
from pacesetter.envs.batch.bank import Bank
from pacesetter.errors import ConfigError, RunError
from pacesetter.features import feature_table
from pacesetter.learning.experience.advisers import Advisers, allowed_orders
from pacesetter.learning.experience.market import FleetMarket
from pacesetter.learning.extras.curiosity import CuriosityConfig
from pacesetter.learning.fleet.validation import play
from pacesetter.learning.learner import Between
from pacesetter.learning.state import write_state
from pacesetter.methods.master.agent import Master, MasterNetwork
from pacesetter.methods.master.learner import MasterMethod, MasterPPO, MasterTrainer, load_master, train_jointly
from pacesetter.methods.master.market import MasterMarket
from pacesetter.panel import Panel

SMALL = MasterNetwork(width=16, heads=2, layers=1, hidden=16)
SHORT: dict[str, Any] = {"window_bars": 2, "episode_bars": 20}
Make = Callable[..., MasterTrainer]


def table_of(panel: Panel) -> Any:
    """The last return, and the sentiment as what a lead–lag feature would be: the master sees it, beside proposals."""
    return replace(feature_table(panel, ["return_1", "sentiment"]), names=("return_1", "leadlag_sentiment"))


@pytest.fixture(scope="module")
def panel() -> Panel:
    """Sentiment tells much of the next bar's move."""
    return Synthetic(symbols=4, bars=600, groups=0, sentiment_strength=0.95, seed=3).read()


def make_fleet(panel: Panel, actions: int | None = 7) -> Fleet:
    torch.manual_seed(0)
    market = FleetMarket(Bank.from_panels(panel, table_of(panel)), 1, window_bars=2)
    return Fleet(network("mlp", width=8, layers=1), market.shapes, market.symbols, actions, 8)


def test_an_agent_may_leave_a_halted_symbol_and_not_enter_it() -> None:
    position = torch.zeros(1, 2, len(PositionEntry))  # held, and not; neither trades now
    position[0, 0, PositionEntry.WEIGHT], position[..., PositionEntry.ROOM] = 0.1, 0.05
    allowed = allowed_orders(position)[0]
    assert allowed[0, list(SELLS)].all()
    assert not allowed[1, list(SELLS)].any()
    assert not allowed[:, list(BUYS)].any()


@pytest.fixture
def make(panel: Panel) -> Make:
    """A learner with 8 portfolios; options are those of the market and of PPO."""
    bank = Bank.from_panels(panel, table_of(panel), is_whole=True)

    def made(envs: int = 8, is_joint: bool = False, **options: Any) -> MasterTrainer:
        advisers = Advisers(make_fleet(panel), panel.symbols)
        market = MasterMarket(bank, envs, advisers, is_joint=is_joint, **SHORT)
        config = MasterPPO(**({"n_steps": 8, "batch_size": 32} | options))
        return MasterTrainer(MasterMethod(Master(SMALL, market.shapes), market, config))

    return made


def weights(learner: MasterTrainer) -> dict[str, torch.Tensor]:
    parts = {"master": learner.fleet, "advisers": learner.advisers}
    return {f"{part}.{name}": tensor.clone() for part in parts for name, tensor in parts[part].state_dict().items()}


def moved(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor], part: str) -> bool:
    return any(not torch.equal(before[name], after[name]) for name in before if name.startswith(part))


@pytest.mark.parametrize("is_joint", [False, True])
def test_a_run_repeats_and_resumes_to_the_bit(make: Make, is_joint: bool, tmp_path: Path) -> None:
    whole = make(is_joint=is_joint)
    whole.learn(192, Between(lambda: whole.save(tmp_path) and None if whole.steps == 64 else None))
    resumed = make(is_joint=is_joint)
    torch.manual_seed(99)
    resumed.load(tmp_path)
    resumed.learn(192)
    assert whole.steps == resumed.steps == 192
    assert not moved(weights(whole), weights(resumed), "")


def test_only_joint_learning_moves_the_agents(make: Make) -> None:
    for is_joint in (False, True):
        learner = make(is_joint=is_joint)
        before = weights(learner)
        learner.learn(64)
        assert moved(before, weights(learner), "master")
        assert moved(before, weights(learner), "advisers") == is_joint


def test_a_master_comes_back_with_its_agents(make: Make, panel: Panel, tmp_path: Path) -> None:
    learner = make(is_joint=True)
    learner.learn(64)
    learner.save(tmp_path)
    drawn = torch.get_rng_state()
    master, advisers = load_master(tmp_path)
    assert torch.equal(torch.get_rng_state(), drawn)
    seen = learner.market.tables({name: part for name, part in learner.observation.items() if name != ACTION_MASK})
    found = [owner.evaluate(seen)[0].mode() for owner in (learner.fleet, master)]
    assert torch.equal(*found)
    assert advisers.symbols == panel.symbols
    assert all(torch.equal(there, learner.advisers.state_dict()[name]) for name, there in advisers.state_dict().items())
    with pytest.raises(RunError, match="was stored with config="):
        make(n_epochs=1).load(tmp_path)
    with pytest.raises(RunError, match="has no master; give"):
        load_master(write_state(tmp_path / "other", {"learner": {"algorithm": "FleetPPO"}}, {}))


def test_the_master_learns_whom_to_hold(make: Make) -> None:
    learner = make(envs=64, n_steps=16, batch_size=256)
    learner.learn(6_000)
    seen = learner.market.reset()
    held = learner.fleet.evaluate(seen)[0].mode().softmax(-1)[:, :-1].detach().numpy()
    tone = seen["leadlag"][..., 0].numpy()
    assert np.corrcoef(held.ravel(), tone.ravel())[0, 1] > 0.8
    mix = learner.statistics()["action_mix"][0]
    torch.testing.assert_close(mix.sum(), torch.tensor(1.0))
    assert 0.05 < mix[-1] < 0.95  # neither all in nor all in cash


# ---- advice ---------------------------------------------------------------------------------------------------------


def advice(fleet: Fleet, panel: Panel, change: Callable[[torch.Tensor], None]) -> dict[str, torch.Tensor]:
    bank = Bank.from_panels(panel, table_of(panel), is_whole=True)
    market = MasterMarket(bank, 3, Advisers(fleet, panel.symbols), is_joint=True, **SHORT)
    seen = market.reset()
    change(seen["position"])
    return market.tables(seen)


def test_advice_is_that_of_single_agents_in_accounts_of_their_own(panel: Panel) -> None:
    fleet = make_fleet(panel)
    found = advice(fleet, panel, lambda position: None)
    trading = FleetMarket(Bank.from_panels(panel, table_of(panel)), 1, starts="fixed", first_bar=10, window_bars=2)
    seen = trading.reset()
    bank = Bank.from_panels(panel, table_of(panel), is_whole=True)
    market = MasterMarket(bank, 1, Advisers(fleet, panel.symbols), starts="fixed", **SHORT)
    first = market.batch.reset()
    first["index"][:] = [[0, 10]]
    alike = market.tables({name: torch.as_tensor(entry) for name, entry in first.items()})
    policy, _ = fleet.evaluate(trading.tables(seen))
    torch.testing.assert_close(alike[PROPOSALS][0], policy.probabilities @ market.advisers.orders)
    assert found[PROPOSALS].shape == found[CONFIDENCE].shape == (3, 4)
    assert ((found[CONFIDENCE] >= 0) & (found[CONFIDENCE] <= 1)).all()


def test_nothing_is_sold_from_flat_nor_bought_without_room(panel: Panel) -> None:
    fleet = make_fleet(panel)

    def fill(position: torch.Tensor) -> None:
        position[1, :, PositionEntry.WEIGHT], position[1, :, PositionEntry.ROOM] = 0.15, 0.0

    found = advice(fleet, panel, fill)[PROPOSALS]
    assert (found[0] > 0).all()
    assert (found[1] < 0).all()


def test_continuous_agents_propose_their_order(panel: Panel) -> None:
    found = advice(make_fleet(panel, actions=None), panel, lambda position: None)
    assert (found[PROPOSALS].abs() <= 1).all()
    torch.testing.assert_close(found[CONFIDENCE], torch.full((3, 4), 0.5), atol=0.05, rtol=0)


# ---- learning together ----------------------------------------------------------------------------------------------


def test_agents_that_forget_are_put_back(make: Make, panel: Panel) -> None:
    bank = Bank.from_panels(panel, table_of(panel))
    alone = FleetMarket(bank, 1, starts="fixed", first_bar=550, window_bars=2)
    learner = make(is_joint=True, adviser_learning_rate=0.05)
    learner.learn(64)
    before = weights(learner)
    found = train_jointly(learner, 256, lambda: play(learner.advisers, alone).growth, checks=1, largest_fall=-1.0)
    assert not found.is_kept
    assert not moved(before, weights(learner), "")
    assert str(found).startswith("taken back: scores of 4 agents went from")
    kept = train_jointly(learner, 128, lambda: play(learner.advisers, alone).growth, checks=2, largest_fall=100.0)
    assert kept.is_kept
    assert moved(before, weights(learner), "advisers")
    assert learner.steps == 192


def test_what_cannot_be_is_refused(make: Make, panel: Panel) -> None:
    with pytest.raises(ConfigError, match="is_joint=True"):
        train_jointly(make(), 8, lambda: torch.zeros(4))
    with pytest.raises(ConfigError, match="takes no extras, not even curiosity"):
        MasterPPO(extras={"curiosity": CuriosityConfig()})
    with pytest.raises(ConfigError, match="is_whole=True"):
        MasterMarket(Bank.from_panels(panel, table_of(panel)), 1, Advisers(make_fleet(panel), panel.symbols))
