"""PPO and its kin as `learning.sb3.algorithms` makes them."""

from __future__ import annotations

from sb3_contrib import MaskablePPO, RecurrentPPO
from stable_baselines3 import A2C, PPO

from pacesetter.learning.sb3.algorithms import Algorithm
from pacesetter.methods.ppo.all_orders import AllOrdersPPO
from pacesetter.methods.ppo.gru import GruPPO

__all__ = ["a2c", "gru_ppo", "maskable_ppo", "ppo", "recurrent_ppo"]

a2c = Algorithm(A2C)
gru_ppo = Algorithm(GruPPO, policy="MultiInputGruPolicy")
maskable_ppo = Algorithm(MaskablePPO, "discrete", masked=True)
ppo = Algorithm(PPO, expected=AllOrdersPPO)
recurrent_ppo = Algorithm(RecurrentPPO, policy="MultiInputLstmPolicy")
