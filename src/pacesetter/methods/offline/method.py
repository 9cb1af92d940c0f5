"""What offline methods share: a round draws rows of stored episodes, and nothing is ever stepped."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

import torch

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.agents.fleet import Fleet
from pacesetter.agents.heads import Distribution
from pacesetter.errors import ConfigError, check_range
from pacesetter.learning.experience.rollout import action_mix
from pacesetter.learning.experience.transitions import Transitions
from pacesetter.learning.fleet.making import make_trainer
from pacesetter.learning.fleet.method import Featuring, FleetConfig, FleetMethod, Losses
from pacesetter.learning.fleet.trainer import FleetTrainer
from pacesetter.learning.methods import Setup
from pacesetter.methods.offline.rows import StoredRows

__all__ = ["NEAR", "OfflineConfig", "OfflineMethod", "make_offline"]

JUDGED_ROWS = 1_024  # of each symbol, held out
Options = TypeVar("Options", bound="OfflineConfig")
NEAR = 0.2  # a continuous order within a tenth of the range is counted as the same


@dataclass(frozen=True)
class OfflineConfig(FleetConfig):
    """Options of every offline method; `train.steps` counts rows drawn of each symbol."""

    dataset: Annotated[str, "file or folder that `pacesetter data export` or a replay log wrote"] = ""
    regimes: Annotated[tuple[str, ...], "those of its regimes that are learned from; none named means all"] = ()
    batch_size: Annotated[int, "rows of each symbol in a gradient step, and `gradient_steps` of them in a round"] = 128
    gradient_steps: int = 16
    held_out: Annotated[float, "share of each symbol's episodes that is never learned from"] = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(0.01, 0.9, owner="agent", held_out=self.held_out)
        if self.extras:
            raise ConfigError(f"offline methods take no extras, not even {', '.join(self.extras)}; leave them out")


class OfflineMethod(FleetMethod[Fleet, StoredRows]):
    """A method whose market is a `StoredRows`."""

    config: OfflineConfig

    def __init__(self, fleet: Fleet, rows: StoredRows, config: OfflineConfig) -> None:
        super().__init__(fleet, rows, config)
        self.latest: dict[str, torch.Tensor] = rows.reset()

    @property
    def round_steps(self) -> int:
        return self.config.gradient_steps * self.config.batch_size

    def collect(self, acting: Featuring) -> None:
        """Nothing: the episodes are stored."""

    def batches(self, experience: None, acting: Featuring) -> Iterator[Transitions]:
        """Rows at random, as many batches as there are gradient steps."""
        for _ in range(self.config.gradient_steps):
            batch = self.market.sample(self.config.batch_size)
            self.latest = batch.observation
            yield batch

    def policy(self, batch: Transitions, features: torch.Tensor) -> Distribution:
        """The policy at the rows of a batch."""
        return self.fleet.decide(features, batch.observation.get(ACTION_MASK), self.rows)[0]

    def round_observations(self, experience: None, acting: Featuring) -> dict[str, torch.Tensor]:
        return self.latest

    # ---- judging --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def judge_held_out(self, acting: Featuring) -> dict[str, torch.Tensor]:
        """Figures (symbol,) on rows held out; `held_out_loss` decides when to stop.

        accuracy        share of the orders in the data that the policy would send, without chance; a number in [-1, 1]
                        is the same within `NEAR`
        """
        batch = self.market.spread(JUDGED_ROWS)
        features = acting.features(batch.observation)
        policy = self.policy(batch, features)
        mode, likely = policy.mode(), self.per_symbol(policy.log_prob(batch.actions))
        if self.market.actions is None:
            is_same = (mode - batch.actions).abs().squeeze(-1) <= NEAR
        else:
            is_same = mode == batch.actions
        return {
            "held_out_loss": self.held_out_loss(batch, features, acting),
            "accuracy": self.per_symbol(is_same.float()).mean(1),
            "log_likelihood": likely.mean(1),
        }

    @abstractmethod
    def losses(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> Losses:
        """The losses of a batch."""

    @abstractmethod
    def held_out_loss(self, batch: Transitions, features: torch.Tensor, acting: Featuring) -> torch.Tensor:
        """(symbol,) what is to be small on rows that were not learned from."""

    @torch.no_grad()
    def describe(self, experience: None, metrics: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Means of what was logged, and the shares of the orders in the data that was learned from last."""
        batch = self.market.spread(JUDGED_ROWS)
        orders, zone = batch.actions.view(self.symbols, -1), self.market.manifest["hold_zone"]
        mix = action_mix(orders, self.market.actions, zone)
        return {"action_mix": mix, **{name: values.mean(0) for name, values in metrics.items()}}


def make_offline(
    method: Callable[[Fleet, StoredRows, Options], OfflineMethod], options: type[Options], setup: Setup
) -> FleetTrainer:
    """The trainer of a fleet by an offline method; refuses a market in place of stored rows."""
    if not isinstance(setup.train, StoredRows):
        raise ConfigError(f"agent={setup.name} learns from stored rows, not in a market; give agent.dataset=FILE")
    return make_trainer(method, options, setup, setup.train)
