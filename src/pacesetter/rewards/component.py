"""A reward component: one number per account and bar, from named ledger columns; and the registry of all of them.

A component is a plain function. Its arguments without a default name the ledger columns it reads; those with a default
are its options; an argument called `state` receives what the component remembers of each account:

    def cost(equity_before, cost):                                  # reads two columns
        return -cost / equity_before

    def smooth_turnover(turnover, state, rate=0.1):                 # remembers one number, has one option
        (mean,) = state
        mean = mean + rate * (turnover - mean)
        return -mean, (mean,)

    REWARDS.add("smooth_turnover", component(smooth_turnover, initial=(0.0,)))

All arguments but the options are (env,) arrays, NumPy or torch, so that operators and the functions of
`pacesetter.rewards.elementwise` serve both. An outside package adds one by an entry point of `pacesetter.reward`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.registry import Registry
from pacesetter.rewards.elementwise import namespace

__all__ = ["REWARDS", "Component", "component"]

INTERPRETED = -1


@dataclass(frozen=True)
class Component:
    """A formula and what it needs.

    formula   (columns…, [state,] options…) -> values (env,), or (values, new state) where it has a state
    columns   ledger columns it reads
    options   name -> default
    initial   the state of an account that starts
    code      place in the compiled set of `trading.py`; INTERPRETED runs the formula on whole arrays
    """

    formula: Callable[..., Any]
    columns: tuple[str, ...]
    options: Mapping[str, float]
    initial: tuple[float, ...] = ()
    code: int = INTERPRETED

    def evaluate(self, columns: Sequence[Array], state: Array, options: Sequence[float]) -> Array:
        """(env,) values from (env,) columns; the (env, k) state is updated in place."""
        if not self.initial:
            whole: Array = self.formula(*columns, *options)
            return whole
        before = tuple(state.T + 0.0)  # a copy: the formula may hand back what it was given
        values, after = self.formula(*columns, before, *options)
        state[:] = namespace(state).stack(after, 1)
        remembering: Array = values
        return remembering

    def options_with(self, chosen: Mapping[str, float], where: str) -> tuple[float, ...]:
        """Every option in order, `chosen` over the defaults.

        Refuses an unknown name, what is not finite, and what is not positive where the default is.
        """
        for name, value in chosen.items():
            if name not in self.options:
                raise ConfigError(f"unknown option '{where}.{name}'{did_you_mean(name, self.options)}")
            if not math.isfinite(value) or (self.options[name] > 0 >= value):
                raise ConfigError(f"{where}.{name}={value} is out of range; give a finite number above 0")
        return tuple(float(chosen.get(name, default)) for name, default in self.options.items())


REWARDS: Registry[Component] = Registry("reward")


def component(formula: Callable[..., object], initial: tuple[float, ...] = (), code: int = INTERPRETED) -> Component:
    """The component of a plain function, its columns and options read from the signature."""
    parameters = inspect.signature(formula).parameters
    # The signature is the declaration: columns have no default, options do.
    needed = [name for name, parameter in parameters.items() if parameter.default is parameter.empty]
    options = {name: parameter.default for name, parameter in parameters.items() if name not in needed}
    if ("state" in needed) != bool(initial) or "state" in needed[:-1]:
        raise ConfigError(
            f"reward formula '{formula.__name__}' and its initial state {initial} do not match; an argument 'state', "
            "between columns and options, needs an initial value for each number of state"
        )
    return Component(formula, tuple(name for name in needed if name != "state"), options, initial, code)
