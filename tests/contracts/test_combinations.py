"""Every pair of methods and parts either learns a round, or is refused in one sentence before a run folder is made.

A run folder is made after `build_learner` (`jobs.run.train._train`): what that refuses has left nothing behind.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
import pytest

from pacesetter.build import Plan, build_learner, build_panel, build_parts
from pacesetter.build.prior import with_prior
from pacesetter.build.utility import with_utility
from pacesetter.errors import ConfigError
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.learning.learner import Between
from pacesetter.panel import Panel

SHORT = ("agent.n_steps=8", "agent.batch_size=16")
REPLAY = ("agent.batch_size=16", "agent.learning_starts=16", "agent.buffer_size=200")
METHODS = {  # with the orders that each takes where a part does not ask for others
    "ppo": (("agent=ppo", *SHORT, "agent.n_epochs=1"), "discrete"),
    "sac": (("agent=sac", *REPLAY), "continuous"),
    "mosac": (("agent=mosac", *REPLAY, "agent.objectives={pnl:0.7,exploration:0.3}"), "continuous"),
    "options": (("agent=options_small", "agent.learning_starts=16", "agent.batch_size=4"), "continuous"),
    "option_critic": (("agent=option_critic", *SHORT), "continuous"),
    "impala": (("agent=impala_small", *SHORT), "target"),
    "es": (("agent=es_small", "agent.population=4"), "target"),
    "hybrid": (("agent=hybrid_small", *SHORT), "target"),
    "meta": (("agent=meta_small", *SHORT), "target"),
}
PARTS = {
    "curiosity": ("agent.extras.curiosity={share:0.1,hidden:8}",),
    "counts": ("agent.extras.curiosity={model:counts}",),
    "potential": ("agent.extras.potential={kind:holding}",),
    "learned potential": ("agent.extras.potential={kind:learned}",),
    "heads": ("agent.extras.auxiliary={weight:1.0,expert:0}",),
    "goals": ("agent.hindsight={k:4}",),
    "repetition limit": ("task.repetition_limit=5",),
    "curriculum": ("task.curriculum=five_stages",),
    "prior": ("agent.prior=direct", "job.direct_steps=20"),
    "paid at the end": ("task.reward.paid=episode",),
    "mean–variance": ("task.aversion=300",),
    "members": ("agent.members=2",),
}
ORDERS = {"repetition limit": "discrete", "prior": "target", "mean–variance": "target", "members": "target"}
TINY = (
    *(
        "task=fleet",
        "data=synthetic",
        "data.symbols=2",
        "data.bars=1200",
        "seed=1",
        "train.envs=4",
        "task.window_bars=4",
    ),
    *("features.names=[return_1,volatility_20,regime_volatility_rank,regime_trend_efficiency]", "task.episode_bars=20"),
    *("task.window_bars=4", "features.leadlag.lookback=null", "train.steps=64", "task.retrain_share=0"),
)


@cache
def market() -> Panel:
    return build_panel(resolve(TINY))


def configured(method: str, parts: tuple[str, ...]) -> Plan:
    own, orders = METHODS[method]
    asked = {ORDERS[part] for part in parts if part in ORDERS} or {orders}
    if len(asked) > 1:
        pytest.skip(f"{' and '.join(parts)} are of different orders")
    small = ("agent.network=mlp_tiny", "agent.heads=[8]")
    added = [text for part in parts for text in PARTS[part]]
    return resolve([*TINY, *own, *small, f"task.action={asked.pop()}", *added])


def learn_or_refuse(method: str, parts: tuple[str, ...]) -> str:
    """The sentence by which a combination is refused; "" where it learns."""
    try:
        panel = market()
        config = with_prior(with_utility(configured(method, parts), panel))
        learner = build_learner(config, build_parts(config, panel))
    except ConfigError as refused:
        return str(refused)
    learner.learn(1, Between())
    assert all(np.isfinite(value).all() for value in learner.statistics().values())
    return ""


PAIRS = [(method, (part,)) for method in METHODS for part in PARTS]
PAIRS += [("sac" if "goals" in pair else "ppo", pair) for pair in combinations(PARTS, 2)]


@pytest.mark.parametrize(("method", "parts"), PAIRS, ids=str)
def test_a_pair_learns_or_is_refused_in_a_sentence(method: str, parts: tuple[str, ...]) -> None:
    said = learn_or_refuse(method, parts)
    if said:
        assert "\n" not in said
        assert "; " in said or ", " in said  # what is wrong, and what to do


def test_parts_that_go_together_learn_together() -> None:
    """Curiosity, objectives, heads and a prior in one agent; options take none of them, and say so."""
    assert learn_or_refuse("mosac", ("curiosity", "heads", "prior")) == ""
    assert learn_or_refuse("option_critic", ("prior", "mean–variance", "members")) == ""
    assert "agent=options takes no extras" in learn_or_refuse("option_critic", ("curiosity", "heads"))


@pytest.mark.parametrize(
    ("method", "parts", "said"),
    [
        ("ppo", ("goals",), "only agent=mosac and agent=sac have it"),
        ("mosac", ("goals",), "leave it out of agent=mosac"),
        ("mosac", ("paid at the end",), "take task.reward.paid=bar"),
        ("mosac", ("mean–variance",), "leave it out, or name variance among the objectives"),
        ("impala", ("curiosity",), "takes no agent.extras"),
        ("es", ("curriculum",), "take task.curriculum=none"),
        ("sac", ("goals", "potential"), "drop one"),
        ("sac", ("goals", "prior"), "leave out agent.hindsight"),
        ("ppo", ("curriculum", "prior"), "give task.curriculum=none"),
        ("options", ("prior",), "take agent=option_critic task.action=target"),
        ("options", ("members",), "take agent=option_critic task.action=target"),
        ("options", ("mean–variance",), "take task.action=continuous"),
    ],
)
def test_what_does_not_go_together_says_what_to_do(method: str, parts: tuple[str, ...], said: str) -> None:
    assert said in learn_or_refuse(method, parts)
