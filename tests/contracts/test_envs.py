"""Contracts of every trading environment: time, seed, ends, and the same code everywhere (DESIGN 1, 3, 4, 6)."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import registry
from hypothesis import given, settings
from hypothesis import strategies as st

from pacesetter.data.synthetic import Synthetic
from pacesetter.envs import PortfolioEnv, PortfolioVectorEnv, TradingEnv, TradingVectorEnv
from pacesetter.envs.batch.account_entries import write_account
from pacesetter.market.parameters import Costs, Exits, Limits, MarketParameters
from pacesetter.panel import Panel
from pacesetter.rewards import TRADING, RewardConfig

MARKET = Synthetic(symbols=3, bars=260, seed=1, late_share=0.3).read()
CLOSES_ONLY = Panel(
    MARKET.index, MARKET.symbols, ("close",), MARKET.blocks[[MARKET.fields.index("close")]], MARKET.mask
)
RULES = MarketParameters(
    costs=Costs(impact_bps=5.0),
    limits=Limits(volume_cap_fraction=0.1, position_loss_limit_fraction=0.05),
    exits=Exits(stop_loss_fraction=0.03, trailing_stop_fraction=0.04),
)
TRADING_ACTIONS, PORTFOLIO_ACTIONS = (
    ("discrete", "continuous", "hybrid", "target"),
    ("target", "continuous", "discrete"),
)
ENVIRONMENTS = [(TradingEnv, action) for action in TRADING_ACTIONS] + [
    (PortfolioEnv, action) for action in PORTFOLIO_ACTIONS
]
VECTORS = [(TradingVectorEnv, action) for action in TRADING_ACTIONS] + [
    (PortfolioVectorEnv, action) for action in PORTFOLIO_ACTIONS
]


def test_every_registered_environment_is_held_to_the_contract() -> None:
    """Those here, and Lookback-v0 in `test_lookback.py`."""
    ours = {spec.entry_point.rpartition(":")[2] for name, spec in registry.items() if name.startswith("pacesetter/")}
    assert ours == {kind.__name__ for kind, _ in ENVIRONMENTS} | {"LookbackEnv"}


def with_another_future(panel: Panel, t: int, seed: int) -> Panel:
    """The panel with other prices, volumes and gaps after bar t."""
    rng = np.random.default_rng(seed)
    blocks, mask = panel.blocks.copy(), panel.mask.copy()
    rest = blocks[:, t + 1 :]
    rest *= np.exp(0.3 * rng.standard_normal((1, *rest.shape[1:])))
    mask[t + 1 :] &= rng.random(mask[t + 1 :].shape) > 0.3
    blocks[:, ~mask] = np.nan
    return replace(panel, blocks=blocks, mask=mask, truth=None)


def bytes_of(value: Any) -> bytes:
    if isinstance(value, dict):
        return b"".join(str(key).encode() + bytes_of(value[key]) for key in sorted(value))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return b"".join(bytes_of(entry) for entry in value if entry is not None)
    return np.asarray(value).tobytes()


def story(env: Any, steps: int, seed: int = 0) -> list[bytes]:
    """All that an environment shows under random actions, step by step: observation, mask, reward, info, fills."""
    seen, _ = env.reset(seed=seed)
    env.action_space.seed(seed)
    told = [bytes_of(seen)]
    for _ in range(steps):
        masks = env.action_masks() if env.batch.action == "discrete" else np.empty(0)
        told.append(bytes_of(masks))
        seen, reward, terminated, truncated, info = env.step(env.action_space.sample())
        told.append(b"".join(map(bytes_of, (seen, reward, terminated, truncated, info, env.batch.fills))))
        if not hasattr(env, "num_envs") and (terminated or truncated):
            env.reset()
    return told


@pytest.mark.parametrize("panel", [MARKET, CLOSES_ONLY], ids=["ohlcv", "closes"])
@pytest.mark.parametrize(("kind", "action"), ENVIRONMENTS, ids=lambda value: getattr(value, "__name__", value))
def test_the_future_changes_nothing_up_to_now(kind: Any, action: str, panel: Panel) -> None:
    rules = RULES if panel is MARKET else replace(RULES, costs=Costs(), limits=Limits())
    options = {"action": action, "market": rules, "starts": "fixed", "reward": RewardConfig(TRADING)}
    env = kind(panel, **options)
    start = env.reset()[1]["bar"]
    for steps in (7, 31):
        other = kind(with_another_future(panel, start + steps, seed=steps), **options)
        assert story(kind(panel, **options), steps) == story(other, steps)
        assert story(kind(panel, **options), steps + 6) != story(other, steps + 6)


@pytest.mark.parametrize(("kind", "action"), VECTORS, ids=lambda value: getattr(value, "__name__", value))
def test_the_future_changes_nothing_in_a_vector_environment(kind: Any, action: str) -> None:
    options = {"num_envs": 3, "action": action, "market": RULES, "starts": "fixed"}
    env = kind(MARKET, **options)
    steps = 12
    latest = int(env.reset()[1]["bar"].min()) + steps
    other = kind(with_another_future(MARKET, latest, seed=3), **options)
    first = int(np.argmin(env.reset()[1]["bar"]))
    ours, theirs = kind(MARKET, **options), other
    for one in (ours, theirs):
        one.reset(seed=0)
        one.action_space.seed(0)
    for _ in range(steps):
        actions = ours.action_space.sample()
        a, b = ours.step(actions), theirs.step(actions)
        for entry in a[0]:
            assert a[0][entry][first].tobytes() == b[0][entry][first].tobytes()
        assert a[1][first] == b[1][first]
        assert ours.batch.fills[first].tobytes() == theirs.batch.fills[first].tobytes()


@pytest.mark.parametrize(
    ("kind", "action"), ENVIRONMENTS + VECTORS, ids=lambda value: getattr(value, "__name__", value)
)
def test_one_seed_is_one_story(kind: Any, action: str) -> None:
    options = {"panel": MARKET, "action": action, "episode_bars": 20}
    assert story(kind(**options), 45, seed=3) == story(kind(**options), 45, seed=3)
    assert story(kind(**options), 45, seed=3) != story(kind(**options), 45, seed=4)


def digest_of_vector() -> str:
    """One vector environment's story as a hash, for another process to give too."""
    return hashlib.sha256(b"".join(story(TradingVectorEnv(MARKET, 4, episode_bars=20), 45, seed=3))).hexdigest()


def test_one_seed_is_one_story_in_another_process() -> None:
    program = "import sys; sys.path.insert(0, sys.argv[1]); import test_envs; print(test_envs.digest_of_vector())"
    line = [sys.executable, "-c", program, str(Path(__file__).parent)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == digest_of_vector(), done.stderr


@settings(max_examples=15, deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000), episode_bars=st.integers(1, 40), limit=st.sampled_from([0.002, 0.01, None]))
def test_ends_are_one_or_the_other_and_the_last_bar_is_never_passed(
    seed: int, episode_bars: int, limit: float | None
) -> None:
    rules = MarketParameters(limits=Limits(position_cap_fraction=1.0, portfolio_loss_limit_fraction=limit))
    env = TradingVectorEnv(MARKET, 4, action="target", market=rules, episode_bars=episode_bars)
    env.reset(seed=seed)
    age = np.zeros(4, int)
    for _ in range(50):
        _, _, terminated, truncated, infos = env.step(np.ones((4, 1)))
        age += 1
        assert not (terminated & truncated).any()
        assert (truncated <= (age == episode_bars)).all()
        assert ((age == episode_bars) <= (terminated | truncated)).all()
        assert not terminated.any() or limit is not None
        ended = terminated | truncated
        assert ("final_obs" in infos) == bool(ended.any())
        age[ended] = 0


def test_the_compiled_account_vector_is_the_plain_function_of_serving() -> None:
    env = PortfolioEnv(MARKET, action="continuous", market=RULES)
    env.reset(seed=1)
    env.action_space.seed(0)
    for _ in range(30):
        seen, *_ = env.step(env.action_space.sample())
        batch = env.batch
        block, t = batch.cursor[0, :2]
        vector = np.empty(batch.builder.vector_size, np.float32)
        rows = batch.accounts[0], batch.positions[0], batch.bank.bars[block, t], batch.parameters[0, 0]
        write_account(vector, *rows)
        served = batch.builder.build(int(block), int(t), vector)
        assert all(served[entry].tobytes() == seen[entry].tobytes() for entry in seen)
