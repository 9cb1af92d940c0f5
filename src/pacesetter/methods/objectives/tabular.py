"""Scalarised Q-learning of vectors in a world of few states (Van Moffaert, Drugan, Nowé 2013): no networks.

Weights of all policies are learned at once from the same transitions. What an episode has added up so far belongs to
the state: Chebyshev's number is of the whole episode and does not add up over its steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pacesetter.arrays import Array
from pacesetter.rewards.scalarise import chebyshev, weighted_sum

__all__ = ["VectorQ", "World"]


@dataclass(frozen=True, eq=False)
class World:
    """A deterministic world whose episodes start in state 0.

    following   (state, action) the next state         rewards   (state, action, objective)
    ends        (state, action) True where the episode is over then
    steps       after which it is over in any case
    """

    following: Array
    rewards: Array
    ends: Array
    steps: int


class VectorQ:
    """Values (preference, time, state, action, objective) of greedy policies, one for each of some preferences.

    In these worlds what was added up is known from state and time: the reward of a step is the same everywhere but at
    the end. `reference` (objective,) is Chebyshev's; None weighs sums.
    """

    def __init__(self, world: World, preferences: Array, gamma: float = 1.0, reference: Array | None = None) -> None:
        self.world, self.preferences, self.gamma, self.reference = world, preferences, gamma, reference
        states, actions, objectives = world.rewards.shape
        self.values = np.zeros((len(preferences), world.steps + 1, states, actions, objectives))
        self.visited = _visited_states(world)

    def learn(self, transitions: int, seed: int = 0, batch: int = 4_096) -> None:
        """Q-learning from random steps out of states that can be visited; the world is exact, so that the rate is 1."""
        draw, world, visited = np.random.default_rng(seed), self.world, self.visited
        sizes = (world.steps, len(visited), world.rewards.shape[1])
        for _ in range(0, transitions, batch):
            time, place, action = (draw.integers(0, most, batch) for most in sizes)
            state = visited[place]
            after, ends = world.following[state, action], world.ends[state, action] | (time + 1 >= world.steps)
            # Each preference follows its own greedy action from the same transition: all policies learn off-policy at
            # once.
            best = self.greedy(time + 1, after)
            rows = np.arange(len(self.preferences))[:, None]
            beyond = self.values[rows, time + 1, after, best]
            target = world.rewards[state, action] + self.gamma * np.where(ends[:, None], 0.0, beyond)
            self.values[rows, time, state, action] = target

    def greedy(self, time: Array, state: Array) -> Array:
        """(preference, row) the best action at (row,) times and states by each preference."""
        values = np.moveaxis(self.values[:, time, state], -1, 0)  # (objective, preference, row, action)
        weights = self.preferences.T[:, :, None, None]
        if self.reference is None:
            return np.asarray(weighted_sum(values, weights).argmax(-1))
        # What a step costs everywhere, so often, is what was added up before.
        # Σ_{i<t} γ^i.
        passed = (1 - self.gamma**time) / (1 - self.gamma) if self.gamma < 1 else time.astype(np.float64)
        before = self.world.rewards[~self.world.ends][0][:, None] * passed
        whole = before[:, None, :, None] + self.gamma ** time[None, None, :, None] * values
        return np.asarray(chebyshev(whole, weights, self.reference[:, None, None, None]).argmax(-1))

    def play(self) -> Array:
        """(preference, objective) discounted sums of an episode of each greedy policy."""
        count = len(self.preferences)
        state, going = np.zeros(count, np.int64), np.ones(count, bool)
        total = np.zeros((count, self.values.shape[-1]))
        for time in range(self.world.steps):
            action = self.greedy(np.full(count, time), state)[np.arange(count), np.arange(count)]
            total += np.where(going[:, None], self.gamma**time * self.world.rewards[state, action], 0.0)
            going = going & ~self.world.ends[state, action]
            state = np.where(going, self.world.following[state, action], state)
        return total


def _visited_states(world: World) -> Array:
    """States that some way from the start leads to before an episode ends."""
    known, fresh = {0}, [0]
    while fresh:
        state = fresh.pop()
        going = set(world.following[state][~world.ends[state]].tolist()) - known
        known |= going
        fresh += going
    return np.array(sorted(known))
