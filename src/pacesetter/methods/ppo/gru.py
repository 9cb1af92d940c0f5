"""PPO with a GRU between encoder and heads, by the interface that Stable-Baselines3 gives an LSTM."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from sb3_contrib import RecurrentPPO
from sb3_contrib.common.recurrent.policies import RecurrentMultiInputActorCriticPolicy
from stable_baselines3.common.policies import BasePolicy
from torch import nn

__all__ = ["GruPPO", "GruPolicy"]

States = tuple[torch.Tensor, torch.Tensor]


class GruMemory(nn.Module):
    """A GRU that takes and gives (hidden, cell) as an LSTM does; the cell is not used."""

    def __init__(self, memory: nn.LSTM) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.num_layers = memory.input_size, memory.hidden_size, memory.num_layers
        self.gru = nn.GRU(self.input_size, self.hidden_size, self.num_layers)

    def forward(self, sequence: torch.Tensor, states: States | None = None) -> tuple[torch.Tensor, States]:
        output, hidden = self.gru(sequence, None if states is None else states[0])
        return output, (hidden, torch.zeros_like(hidden) if states is None else states[1])


class GruPolicy(RecurrentMultiInputActorCriticPolicy):
    """The recurrent policy with GRUs in place of LSTMs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        schedule = arguments[2] if len(arguments) > 2 else options["lr_schedule"]
        self.lstm_actor: Any = GruMemory(self.lstm_actor)
        if self.lstm_critic is not None:
            self.lstm_critic: Any = GruMemory(self.lstm_critic)
        # The parent's optimiser holds the parameters of the LSTMs that were replaced.
        make: Any = self.optimizer_class
        self.optimizer = make(self.parameters(), lr=schedule(1), **self.optimizer_kwargs)


class GruPPO(RecurrentPPO):
    """Recurrent PPO around a `GruPolicy`."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {"MultiInputGruPolicy": GruPolicy}
