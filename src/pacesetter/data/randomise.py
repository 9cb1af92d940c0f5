"""Domain randomisation: options drawn from configured distributions, e.g. `{noise: {uniform: [0.5, 2]}}`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from pacesetter.errors import ConfigError, did_you_mean

__all__ = ["DISTRIBUTIONS", "check_distributions", "draw"]


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    # Uniform in the logarithm: each factor of ten is as likely as another.
    return float(np.exp(generator.uniform(math.log(low), math.log(high))))


def _choice(generator: np.random.Generator, *values: object) -> object:
    return values[int(generator.integers(len(values)))]


# name -> (how to draw, what its arguments are, whether they are allowed)
DISTRIBUTIONS: dict[str, tuple[Callable[..., object], str, Callable[..., bool]]] = {
    "uniform": (lambda generator, low, high: float(generator.uniform(low, high)), "low ≤ high", lambda a, b: a <= b),
    "log_uniform": (_log_uniform, "0 < low ≤ high", lambda a, b: 0 < a <= b),
    "integers": (
        lambda generator, low, high: int(generator.integers(low, high, endpoint=True)),
        "whole low ≤ high, both included",
        lambda a, b: a <= b and a == int(a) and b == int(b),
    ),
    "normal": (lambda generator, mean, sd: float(generator.normal(mean, sd)), "mean, sd ≥ 0", lambda a, b: b >= 0),
    "choice": (_choice, "the values to choose from", lambda *values: bool(values)),
}


def check_distributions(distributions: Mapping[str, object], options: Collection[str], where: str) -> None:
    """Refuse an option that is not one of `options`, an unknown distribution and arguments it cannot take."""
    for option, distribution in distributions.items():
        if option not in options:
            raise ConfigError(f"{where} names the unknown option '{option}'{did_you_mean(str(option), options)}")
        _split_distribution(distribution, f"{where}.{option}")


def draw(distributions: Mapping[str, object], generator: np.random.Generator, where: str) -> dict[str, object]:
    """One value per option; the same generator state gives the same values, whatever the order of the options."""
    drawn = {}
    # Sorted, because each draw moves the generator.
    for option in sorted(distributions):
        name, arguments = _split_distribution(distributions[option], f"{where}.{option}")
        drawn[option] = DISTRIBUTIONS[name][0](generator, *arguments)
    return drawn


def _split_distribution(distribution: object, where: str) -> tuple[str, Sequence[object]]:
    """Name and arguments of `{name: [arguments]}`."""
    if not isinstance(distribution, Mapping) or len(distribution) != 1:
        raise ConfigError(f"{where}={distribution!r} must name one distribution, e.g. {{uniform: [0.5, 2]}}")
    name, arguments = next(iter(distribution.items()))
    if name not in DISTRIBUTIONS:
        raise ConfigError(f"{where}: unknown distribution '{name}'{did_you_mean(str(name), DISTRIBUTIONS)}")
    _, meaning, allowed = DISTRIBUTIONS[name]
    try:
        fits = allowed(*arguments) and (name == "choice" or all(map(math.isfinite, arguments)))
    except (TypeError, ValueError, OverflowError):
        fits = False
    if not fits:
        raise ConfigError(f"{where}.{name}={arguments!r} does not fit; it takes [{meaning}]")
    return name, list(arguments)
