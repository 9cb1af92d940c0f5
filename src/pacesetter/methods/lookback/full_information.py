"""Expected policy gradient for windows: the reward of every candidate is known, so nothing is estimated from draws.

With d_t(b) how likely window b is in force at bar t of a segment, and r(t, b, c) the table of rewards:

    J = mean_t Σ_b d_t(b) Σ_c π(c | x_t(b))·r(t, b, c),        d_{t+1}(b') = Σ_b d_t(b) Σ_{c → b'} π(c | x_t(b))

J is differentiated as it stands, through d too, so that the cost of a switch counts at the bars that it pays for. No
window moves the market: a segment is as good for one policy as for another, and may be used for several updates.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import VectorEnv
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from torch.nn import functional

from pacesetter.arrays import Array
from pacesetter.envs.lookback.batch import LookbackBatch
from pacesetter.envs.lookback.environment import LookbackEnv
from pacesetter.envs.lookback.oracle import optimal_values
from pacesetter.envs.lookback.table import RewardTable, check_tabular, reward_table
from pacesetter.envs.lookback.vector import LookbackVectorEnv
from pacesetter.errors import ConfigError, DataError
from pacesetter.learning.sb3.adapter import VectorAdapter
from pacesetter.learning.sb3.own import OwnAlgorithm
from pacesetter.methods.lookback.options import FullInformationOptions
from pacesetter.methods.lookback.record import (
    RecordLogits,
    WindowPolicy,
    best_rule,
    better_constant,
    with_record,
)

__all__ = ["FullInformation", "best_constant", "expected_rewards"]

MOST_BYTES = 2**30  # of observations that are kept; more are looked at again in every round
BLOCK_BARS = 512


def expected_rewards(
    policy: torch.Tensor, rewards: torch.Tensor, in_force: torch.Tensor, start: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Σ_b d_t(b) Σ_c π·r (segment, bar), and d (segment, bar, window).

    policy      (segment, bar, before, choice) probabilities      rewards   the same shape
    in_force    the same shape: place of the window that a choice brings into force
    start       (segment, window) how likely each window is in force at the first bar
    """
    likely, expected, held = start, [], []
    moves = functional.one_hot(in_force, policy.shape[-1]).to(policy.dtype)
    for t in range(policy.shape[1]):
        held.append(likely)
        # d_t(b)·π(c | x_t(b)), (segment, before, choice).
        both = likely.unsqueeze(-1) * policy[:, t]
        expected.append((both * rewards[:, t]).sum((-1, -2)))
        # d_{t+1}, with its gradient: a choice is also judged by the windows that it makes likely later.
        likely = torch.einsum("sbc,sbcw->sw", both, moves[:, t])
    return torch.stack(expected, 1), torch.stack(held, 1)


class FullInformation(OwnAlgorithm):
    """Actor and critic trained on tables of rewards; nothing is played."""

    options_kind = FullInformationOptions
    options: FullInformationOptions
    policy_kind = WindowPolicy

    def __init__(self, env: Any, options: FullInformationOptions, *others: Any, **policy_options: Any) -> None:
        self._table: RewardTable | None = None
        self._shown: dict[str, torch.Tensor] | None = None
        super().__init__(env, options, *others, **policy_options)

    def make_policy(self, options: dict[str, Any]) -> MultiInputActorCriticPolicy:
        """The networks, which read the record where the options weigh it."""
        coef = self.options.record_coef
        if coef:
            windows = _batch_of(self.env).config.windows
            options = with_record(options, self.env, coef, windows.places(windows.grid))
        return super().make_policy(options)

    # ---- a round --------------------------------------------------------------------------------------------------

    def collect(self, callback: BaseCallback) -> bool:
        """Draw segments and look at every window that may be in force there; nothing is played."""
        self._prepare(self.env)
        # From the action space's generator, whose state a checkpoint stores.
        starts = self._starts[self.action_space.np_random.integers(0, len(self._starts), self.n_envs)]
        self._rows = starts[:, None] + np.arange(self._length)
        self._seen = self._observe(self._rows)
        played = self._play()
        for t in range(self.n_steps):
            self.num_timesteps += self.n_envs
            bar = t % self._length  # bars are looked at again where there are fewer than a segment's
            now = {name: values[:, bar] for name, values in played.items()}
            callback.update_locals({"new_obs": self._at(bar), "infos": [], **now})
            if not callback.on_step():
                return False
        totals = played["rewards"].sum(axis=1).tolist()
        self.ep_info_buffer.extend({"r": total, "l": self.n_steps, "t": 0.0} for total in totals)
        return True

    def _prepare(self, env: object) -> None:
        """The table of the training set, made once; refuses episodes that have none."""
        if self._table is None:
            batch = _batch_of(env)
            check_full_information(batch)
            self._batch, market = batch, batch.markets[0]
            # The first bar at which every window of the grid and of the observation is complete.
            first = max(market.first, batch.config.windows.longest, batch.config.windows.seen[-1])
            usable = batch.dealer.learnable_bars(market)[first : market.last + 1]
            self._length, self._starts = _segments(usable, self.n_steps)
            if len(self._starts) == 0:
                raise DataError("agent=full_information has no bar behind the longest window; give more bars")
            self._table = reward_table(market, batch.config, first, market.last)
            self._best = optimal_values(self._table)[1]
            self._anchor = best_constant(self._table, usable)
            self._begin(market.record[self._table.bars], usable)

    def _begin(self, record: Array, usable: Array) -> None:
        """Where a policy that has learned nothing begins: at the records, or at the constant that is better."""
        layer = self.policy.action_net
        if isinstance(layer, RecordLogits) and layer.is_new():
            assert self._table is not None
            view = self._batch.config.view
            rule = best_rule(record, len(view.records), self._table, usable, view.state_bars is not None)
            layer.begin_with(rule)
            if (place := better_constant(rule, record, self._table, usable)) is not None:
                layer.begin_at(place)

    def _observe(self, rows: Array) -> dict[str, torch.Tensor]:
        """Entries (segment, bar, before, …) of the observations with each candidate in force."""
        if self._shown is None and self._bytes() <= MOST_BYTES:
            assert self._table is not None
            self._shown = self._gather_entries(np.arange(len(self._table.bars)))
        if self._shown is None:
            flat = self._gather_entries(rows.ravel())
            return {name: entry.reshape(*rows.shape, *entry.shape[1:]) for name, entry in flat.items()}
        places = torch.as_tensor(rows, device=self.device)
        return {name: entry[places] for name, entry in self._shown.items()}

    def _bytes(self) -> int:
        """What the observations of all bars with all windows take."""
        assert self._table is not None
        return 4 * sum(self._batch.entries().values()) * self._table.lookbacks.size

    def _gather_entries(self, rows: Array) -> dict[str, torch.Tensor]:
        """Entries (row, before, …) at the rows of the table, a block at a time."""
        table, batch, parts = self._table, self._batch, []
        assert table is not None
        count, block = table.lookbacks.shape[1], min(BLOCK_BARS, len(rows))
        viewer = batch.config.make_batch(batch.dealer.panel, block * count, batch.dealer)
        for start in range(0, len(rows), block):
            now = np.resize(rows[start : start + block], block)  # the last block is filled up
            viewer.place(batch.markets[0], np.repeat(table.bars[now], count), table.lookbacks[now].reshape(-1))
            size = min(block, len(rows) - start)
            parts.append({name: entry.reshape(block, count, -1)[:size] for name, entry in viewer.observe().items()})
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        return {name: torch.as_tensor(entry, device=self.device) for name, entry in joined.items()}

    def _at(self, t: int) -> dict[str, torch.Tensor]:
        """The observations of one bar, a row per segment and window."""
        return {name: entry[:, t].flatten(0, 1) for name, entry in self._seen.items()}

    def _tables(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rewards and windows in force of the segments, (segment, bar, before, choice), and the optimum's choices."""
        table = self._table
        assert table is not None
        rewards = torch.as_tensor(table.total[self._rows], dtype=torch.float32, device=self.device)
        in_force = torch.as_tensor(table.in_force[self._rows], device=self.device)
        return rewards, in_force, torch.as_tensor(self._best[self._rows], device=self.device)

    def _start(self) -> torch.Tensor:
        count = len(self._batch.config.windows.grid)
        # Every window equally likely at the start: the policy must learn what to do from each.
        return torch.full((len(self._rows), count), 1.0 / count, device=self.device)

    @torch.no_grad()
    def _play(self) -> dict[str, Array]:
        """Expected rewards and likeliest choices of each step, (segment, bar), for observers."""
        policy, _ = self._evaluate()
        rewards, in_force, _ = self._tables()
        expected, held = expected_rewards(policy.exp(), rewards, in_force, self._start())
        chosen = (held.unsqueeze(-1) * policy.exp()).sum(2).argmax(-1)
        done = np.zeros(self._rows.shape, dtype=bool)
        done[:, -1] = True
        return {"actions": chosen.cpu().numpy(), "rewards": expected.cpu().numpy(), "dones": done}

    def _evaluate(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities (segment, bar, before, choice) and values (segment, bar, before)."""
        flat = {name: entry.flatten(0, 2) for name, entry in self._seen.items()}
        shape = next(iter(self._seen.values())).shape[:3]
        latent, latent_value = self.policy.mlp_extractor(self.policy.extract_features(flat))
        logits = self.policy.action_net(latent).log_softmax(-1)
        return logits.reshape(*shape, -1), self.policy.value_net(latent_value).reshape(shape)

    # ---- learning -------------------------------------------------------------------------------------------------

    def update(self) -> None:
        """Updates on the segments of this round."""
        options = self.options
        rewards, in_force, best = self._tables()
        for _ in range(options.n_epochs):
            logs, values = self._evaluate()
            expected, held = expected_rewards(logs.exp(), rewards, in_force, self._start())
            # Entropy and teaching count where the policy goes, but must not steer where it goes.
            weights = held.detach()
            entropy = -(weights * (logs.exp() * logs).sum(-1)).sum(-1).mean()
            taught = -(weights * logs.gather(-1, best.unsqueeze(-1)).squeeze(-1)).sum(-1).mean()
            anchored = -(weights * logs[..., self._anchor]).sum(-1).mean()
            value_loss = functional.mse_loss(values, self._returns(logs.exp().detach(), rewards, in_force, values))
            loss = -expected.mean() - options.ent_coef * entropy + options.vf_coef * value_loss
            self.descend(loss + options.teacher_coef * taught + options.anchor_coef * anchored)
        self._n_updates += options.n_epochs
        self.logger.record("train/policy_gradient_loss", float(-expected.mean().detach()))
        self.logger.record("train/entropy_loss", float(-entropy.detach()))
        self.logger.record("train/value_loss", float(value_loss.detach()))
        self.logger.record("train/teacher_loss", float(taught.detach()))
        self.logger.record("train/anchor_loss", float(anchored.detach()))

    def _returns(
        self, policy: torch.Tensor, rewards: torch.Tensor, in_force: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """Exact discounted returns of the policy within the segments, (segment, bar, before); the last one's own
        value stands for what comes behind."""
        # Bootstrapped by the critic itself, held fixed.
        later, returns = values[:, -1].detach(), []
        for t in range(policy.shape[1] - 1, -1, -1):
            following = later.unsqueeze(1).expand(-1, policy.shape[2], -1).gather(-1, in_force[:, t])
            later = (policy[:, t] * (rewards[:, t] + self.gamma * following)).sum(-1)
            returns.append(later)
        return torch.stack(returns[::-1], 1)


def best_constant(table: RewardTable, usable: Array) -> int:
    """Place in the grid of the window that scores most if it stays in force, over the usable bars (bar,)."""
    held = np.einsum("tkk->tk", table.total)
    return int(held[usable].mean(axis=0).argmax())


def _segments(usable: Array, length: int) -> tuple[int, Array]:
    """The length of a segment, halved until one fits into the usable bars (bar,), and where segments may start."""
    while length > 1:
        if len(usable) >= length:
            # A segment may start where all of its bars are usable: the moving sum equals its length.
            starts = np.flatnonzero(np.convolve(usable, np.ones(length), mode="valid") == length)
            if len(starts):
                return length, starts
        length //= 2
    return 1, np.flatnonzero(usable)


def _batch_of(env: object) -> LookbackBatch:
    """The batch behind a vector environment; refuses one that has no windows to choose."""
    own = env.env if isinstance(env, VectorAdapter) else env
    inner = own.unwrapped if isinstance(own, (gymnasium.Env, VectorEnv)) else own
    if not isinstance(inner, (LookbackEnv, LookbackVectorEnv)):
        raise ConfigError("agent=full_information chooses windows; give a lookback environment, e.g. task=lookback")
    return inner.batch


def check_full_information(batch: LookbackBatch) -> None:
    """Refuse windows and episodes whose rewards are not one table."""
    windows, episodes = batch.config.windows, batch.config.episodes
    if windows.action != "absolute" or windows.max_delta is not None:
        raise ConfigError(
            "agent=full_information chooses any window of the grid at any bar; set task.windows.action=absolute and "
            "task.windows.max_delta=null"
        )
    if episodes.synthetic_share > 0 or len(episodes.resolutions) > 1:
        raise ConfigError(
            "agent=full_information learns from the panel's own bars; set task.episodes.synthetic_share=0 and one "
            "of task.episodes.resolutions"
        )
    if batch.is_steered:
        raise ConfigError(
            "agent=full_information has one table of rewards, and a controller changes them; use agent=ppo"
        )
    check_tabular(batch.config.reward)
