"""What a policy of windows is shown outside its environment: the one place for evaluation, bundles and servers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pacesetter.agents.agent import ACTION_MASK
from pacesetter.arrays import Array
from pacesetter.policies.spec import PolicySpec

__all__ = ["allow_all_actions"]


def allow_all_actions(observation: Mapping[str, Array], spec: PolicySpec) -> dict[str, Array]:
    """A batch of observations with every action allowed, as `leadlag.lookback.policy.roll` shows them.

    The memory of a recurrent policy is empty, as at the first bar of an episode.
    """
    rows = len(observation["lookback"])
    absent = {name: shape for name, shape in spec.inputs.items() if name not in observation}
    # 1 allows every action; 0 is an empty memory.
    filled = {name: float(name == ACTION_MASK) for name in absent}
    return {
        **observation,
        **{name: np.full((rows, *shape), filled[name], np.float32) for name, shape in absent.items()},
    }
