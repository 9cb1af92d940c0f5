"""Off-policy evaluation: what a policy would earn, from episodes that others played, with intervals.

The estimand is the discounted sum of an episode's rewards. Importance sampling per decision is unbiased and wild; its
weighted form and the doubly robust one are consistent; fitted Q evaluation trusts a model. Arrays are (episode, step),
0 behind the end of an episode.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.heads import MaskedCategorical
from pacesetter.arrays import Array
from pacesetter.errors import DataError, check_range
from pacesetter.methods.offline.rows import HELD_OUT, LEARNED, StoredRows, pad_episodes
from pacesetter.methods.offline.window_agents import OfflineAgents

__all__ = [
    "Estimate",
    "doubly_robust",
    "effective_episodes",
    "fitted_q",
    "importance_sampling",
    "policy_estimates",
    "weighted_importance_sampling",
]

LEAST_EFFECTIVE = 1.5  # episodes; below it one episode decides, and nothing is estimated
LEAST_SHARED = 0.01  # mean ratio of a step, whose expectation is 1 where the data shows what the policy does
MOMENT_DRAWS = 32  # of a continuous policy, behind its first two moments
CHUNK_ROWS = 8_192


class Estimate(NamedTuple):
    """An estimate of a policy's discounted return, with its 95 % interval over episodes."""

    name: str
    value: float
    low: float
    high: float


# ---- estimators -----------------------------------------------------------------------------------------------------


def _weights(log_ratios: Array) -> Array:
    """(episode, step) Π_{i ≤ t} π(a_i|s_i) / μ(a_i|s_i); log ratios are 0 behind the end."""
    return np.asarray(np.exp(np.minimum(np.cumsum(log_ratios, axis=1), 700.0)))


def importance_sampling(log_ratios: Array, rewards: Array, gamma: float) -> Array:
    """(episode,) Σ_t γ^t·w_t·r_t, whose mean is unbiased (Precup, Sutton, Singh 2000)."""
    return np.asarray((_weights(log_ratios) * rewards) @ gamma ** np.arange(rewards.shape[1]))


def weighted_importance_sampling(log_ratios: Array, rewards: Array, gamma: float) -> float:
    """Σ_t γ^t·Σ_i w_it·r_it / Σ_i w_it: biased by 1/n, of far smaller variance."""
    weights = _weights(log_ratios)
    means = (weights * rewards).sum(0) / np.maximum(weights.sum(0), 1e-300)
    return float(means @ gamma ** np.arange(rewards.shape[1]))


def doubly_robust(log_ratios: Array, rewards: Array, taken: Array, values: Array, gamma: float) -> Array:
    """(episode,) V̂(s_t) + ρ_t·(r_t + γ·DR_{t+1} − Q̂(s_t, a_t)) from the end backwards (Jiang, Li 2016, eq. 10).

    taken   (episode, step) Q̂ of the actions in the data        values   (episode, step) V̂ of the policy
    Unbiased whatever the model says, and without variance where the model is right and the world certain.
    """
    estimates = np.zeros(len(rewards))
    ratios = np.exp(log_ratios)
    for t in reversed(range(rewards.shape[1])):
        estimates = values[:, t] + ratios[:, t] * (rewards[:, t] + gamma * estimates - taken[:, t])
    return estimates


def fitted_q(basis: Array, expected: Array, rewards: Array, gamma: float, horizon: int, penalty: float = 1e-6) -> Array:
    """(horizon + 1, k) weights of Q̂_h(s, a) = basis·θ_h, the value of h more steps (Le, Voloshin, Yue 2019).

    θ_0 = 0 and θ_{h+1} is the ridge regression of r + γ·E_π[Q̂_h(s', a')] on the basis.
    basis      (row, k) of what was seen and done
    expected   (row, k) mean basis of the next state under the policy; 0 after a termination
    penalty    of the regression, as a share of the mean diagonal
    """
    rows = len(basis)
    gram = basis.T @ basis / rows
    gram[np.diag_indices_from(gram)] += penalty * max(float(np.trace(gram)) / len(gram), 1e-12)
    step = np.linalg.solve(gram, basis.T @ np.column_stack([expected, rewards]) / rows)
    weights = np.zeros((horizon + 1, basis.shape[1]))
    for h in range(horizon):
        weights[h + 1] = step[:, -1] + gamma * (step[:, :-1] @ weights[h])
    return weights


def effective_episodes(log_ratios: Array) -> float:
    """(Σw)² / Σw² of the whole episodes' weights: how many of them really speak of the policy."""
    log_weights = log_ratios.sum(1)
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (weights**2).sum())


# ---- of a fleet -----------------------------------------------------------------------------------------------------


class _Held(NamedTuple):
    """Held-out episodes, (episode, step) each, and V̂ of their first states (episode,)."""

    log_ratios: Array
    rewards: Array
    taken: Array
    values: Array


@torch.no_grad()
def policy_estimates(
    fleet: OfflineAgents, rows: StoredRows, gamma: float, draws: int = 500, seed: int = 0
) -> tuple[list[Estimate], float]:
    """WIS, DR and FQE of a fleet's policies over held-out episodes, and how many of these are effective.

    The model is fitted, linear in the encoder's features, on the episodes that are not held out. Refuses data that was
    decided without chance, data whose actions the policy would never, or nearly never, choose, and a model that
    diverges.
    """
    check_range(1, draws=draws)
    _check_chance(rows)
    by_symbol = [_of_symbol(fleet, rows, place, gamma) for place in range(len(rows.symbols))]
    steps = max(part.rewards.shape[1] for part in by_symbol)
    held = _Held(*(np.concatenate([_widen(part[i], steps) for part in by_symbol]) for i in range(len(_Held._fields))))
    effective = _checked_overlap(held.log_ratios)
    robust = doubly_robust(*held, gamma)
    generator = np.random.default_rng(seed)
    estimates = [
        _estimate("WIS", lambda i: weighted_importance_sampling(held[0][i], held[1][i], gamma), held, generator, draws),
        _estimate("DR", lambda i: float(robust[i].mean()), held, generator, draws),
        _estimate("FQE", lambda i: float(held.values[i, 0].mean()), held, generator, draws),
    ]
    _check_possible(estimates, rows, gamma)
    return estimates, effective


def _check_chance(rows: StoredRows) -> None:
    """Refuse actions without a probability: a density of exactly 1 throughout an episode, or certainty everywhere."""
    lengths = rows.episodes.lengths
    is_certain = np.logical_and.reduceat(
        rows.episodes.rows["log_probs"] == 0, np.cumsum(lengths) - lengths
    )  # (episode,)
    if is_certain.any() if rows.actions is None else is_certain.all():
        raise DataError(
            f"off-policy evaluation needs actions that were drawn by chance: in {int(is_certain.sum()):,} of "
            f"{len(is_certain):,} episodes they were decided without chance, as those of a paper log are; export a "
            "run, or random orders"
        )


def _checked_overlap(log_ratios: Array) -> float:
    """How many episodes are effective; refuses too few of them, and ratios whose mean is far from 1."""
    advice = "export a regime with more random orders, or shorter episodes by --bars"
    effective, shared = effective_episodes(log_ratios), float(np.exp(np.minimum(log_ratios, 700.0)).mean())
    if not np.isfinite(log_ratios).all() or not LEAST_SHARED <= shared <= 1 / LEAST_SHARED:
        raise DataError(
            "off-policy evaluation needs actions in common: ratios of the policy's probabilities to the data's are "
            f"{shared:.2g} on average, where 1 is expected; {advice}"
        )
    if effective < LEAST_EFFECTIVE:
        raise DataError(
            f"off-policy evaluation needs actions in common: of {len(log_ratios)} held-out episodes only "
            # Rounded down: 1.496 is not the 1.5 that would be enough.
            f"{math.floor(100 * effective) / 100:.2f} are effective, {LEAST_EFFECTIVE} are needed; {advice}"
        )
    return effective


def _check_possible(estimates: Sequence[Estimate], rows: StoredRows, gamma: float) -> None:
    """Refuse estimates beyond the largest possible return: the largest reward of the data at every step."""
    discounts = gamma ** np.arange(int(rows.manifest["episode_bars"]))
    largest = float(np.abs(rows.episodes.rows["rewards"]).max() * discounts.sum())
    # Not `any(… > largest)`: NaN is above nothing. A little more, for rounding.
    wild = [each for each in estimates if not np.abs(each[1:]).max() <= 1.001 * largest + 1e-12]
    if wild:
        figures = ", ".join(f"{each.name} {each.value:+.2g} ({each.low:+.2g} … {each.high:+.2g})" for each in wild)
        raise DataError(
            f"off-policy evaluation diverges: {figures}, where no return of the data's rewards is beyond "
            f"±{largest:.2g}; export more episodes, or a regime with more random orders"
        )


def _estimate(
    name: str, of: Callable[[Array], float], held: _Held, generator: np.random.Generator, draws: int
) -> Estimate:
    """The estimate over all episodes, and the quantiles of those over episodes drawn again."""
    count = len(held.rewards)
    drawn = [of(generator.integers(0, count, count)) for _ in range(draws)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return Estimate(name, of(np.arange(count)), float(low), float(high))


def _widen(values: Array, steps: int) -> Array:
    return np.pad(values, ((0, 0), (0, steps - values.shape[1])))


def _of_symbol(fleet: OfflineAgents, rows: StoredRows, place: int, gamma: float) -> _Held:
    """The held-out episodes of one symbol, with a model of its own."""
    row = torch.tensor(fleet.places([rows.symbols[place]]), device=rows.device)
    own = np.flatnonzero(rows.episodes.symbols == rows.present[place])
    horizon = int(rows.manifest["episode_bars"])
    learned, held = (own[np.isin(own, rows.parts[part])] for part in (LEARNED, HELD_OUT))
    held = _ended_episodes(rows, held, rows.symbols[place])
    basis, expected, _ = _bases(fleet, rows, row, learned)
    places = _places(rows, learned)
    later = np.where(rows.episodes.rows["terminated"][places][:, None], 0.0, expected[_following_places(rows, learned)])
    weights = fitted_q(basis, later, rewards=rows.episodes.rows["rewards"][places], gamma=gamma, horizon=horizon)
    basis, expected, log_probs = _bases(fleet, rows, row, held)
    places, lengths = _places(rows, held), rows.episodes.lengths[held]
    left = np.maximum(horizon - np.concatenate([np.arange(length) for length in lengths]), 0)
    taken = (basis * weights[left]).sum(1)
    values = (expected[: len(places)] * weights[left]).sum(1)
    log_ratios = log_probs - rows.episodes.rows["log_probs"][places]
    columns = (log_ratios, rows.episodes.rows["rewards"][places], taken, values)
    return _Held(*(pad_episodes(column, lengths) for column in columns))


def _ended_episodes(rows: StoredRows, held: Array, symbol: str) -> Array:
    """Episodes that ended by themselves or by time; refuses none. Of one that was cut off the return is not known."""
    lengths = rows.episodes.lengths
    is_cut = rows.episodes.rows["truncated"][np.cumsum(lengths) - 1] & (lengths < int(rows.manifest["episode_bars"]))
    if is_cut[held].all():
        raise DataError(
            f"off-policy evaluation needs whole episodes: all {len(held)} held-out ones of '{symbol}' were cut off "
            f"before their {rows.manifest['episode_bars']} bars; train longer, or with a smaller task.episode_bars"
        )
    return np.asarray(held[~is_cut[held]])


def _places(rows: StoredRows, chosen: Array) -> Array:
    """Rows of the chosen episodes."""
    lengths = rows.episodes.lengths
    firsts = np.cumsum(lengths) - lengths
    return np.concatenate([np.arange(firsts[each], firsts[each] + lengths[each]) for each in chosen])


def _following_places(rows: StoredRows, chosen: Array) -> Array:
    """For each row of the chosen episodes, the place of its next state among their rows and, behind them, finals."""
    lengths = rows.episodes.lengths[chosen]
    following = np.arange(1, lengths.sum() + 1)
    following[np.cumsum(lengths) - 1] = lengths.sum() + np.arange(len(chosen))
    return following


def _bases(fleet: OfflineAgents, rows: StoredRows, row: torch.Tensor, chosen: Array) -> tuple[Array, Array, Array]:
    """(row, k) basis of state and action, (row + episode, k) its mean under the policy, (row,) log π of the action."""
    acted = _places(rows, chosen)
    places = torch.from_numpy(np.concatenate([acted, rows.episodes.row_count + chosen])).to(rows.device)
    known, means, logs = [], [], []
    for start in range(0, len(places), CHUNK_ROWS):
        part = places[start : start + CHUNK_ROWS]
        observation = rows.at(part)
        features = fleet.encoder(rows.tables({k: v for k, v in observation.items() if k != ACTION_MASK}))
        policy, _ = fleet.decide(features, observation.get(ACTION_MASK), row)
        inside = part[part < rows.episodes.row_count]
        actions = rows.rows["actions"][inside]
        base = torch.cat([features, torch.ones_like(features[:, :1])], dim=1).double()
        if isinstance(policy, MaskedCategorical):
            shares = policy.probabilities.double()
            chosen_ones = torch.nn.functional.one_hot(actions, shares.shape[1]).double()
            log_probs = policy.log_probabilities[: len(inside)].gather(1, actions[:, None]).squeeze(1)
        else:
            drawn = torch.stack([policy.sample() for _ in range(MOMENT_DRAWS)]).double()
            shares = torch.cat([torch.ones_like(drawn[0]), drawn.mean(0), drawn.square().mean(0)], dim=1)
            chosen_ones = torch.cat([torch.ones_like(actions), actions, actions.square()], dim=1).double()
            whole = torch.zeros(len(part), 1, device=rows.device)
            whole[: len(inside)] = actions
            log_probs = policy.log_prob(whole)[: len(inside)]
        means.append((base[:, :, None] * shares[:, None]).flatten(1).cpu().numpy())
        known.append((base[: len(inside), :, None] * chosen_ones[:, None]).flatten(1).cpu().numpy())
        logs.append(log_probs.double().cpu().numpy())
    return np.concatenate(known), np.concatenate(means), np.concatenate(logs)
