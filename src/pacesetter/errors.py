"""The one exception family: a message says what, where, and what to do."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from numbers import Real
from typing import Any

__all__ = [
    "ConfigError",
    "DataError",
    "LimitWarning",
    "PacesetterError",
    "RunError",
    "check_above",
    "check_installed",
    "check_range",
    "did_you_mean",
    "extra_with",
    "needs",
]

MOST_NAMES = 12  # a message lists so many known names; a panel may have thousands
# words that people type for a key, none of which is spelt like it
SYNONYMS = {
    "leverage": "lev max_leverage gross max_gross",
    "shorting": "short shorts allow_short allow_shorts allow_shorting short_selling long_short long_only",
    "position_cap": "cap max_weight weight_cap max_position position_limit max_position_size position_size",
    "costs": "cost fee fees fees_bps fee_bps commission commissions commission_bps slippage slippage_bps spread "
    "spread_bps transaction_costs cost_bps",
    "reserve_cash": "cash_reserve min_cash",
    "initial_cash": "cash capital equity initial_capital start_cash starting_cash",
    "minimum_notional": "min_trade minimum_trade min_notional",
    "target_volatility": "vol volatility target target_vol vol_target volatility_target target_risk",
    "tracking_error": "tracking",
    "inverse_volatility": "inv_vol invvol inverse_vol inverse_variance risk_parity",
    "equal_weight": "equal equal_weights equally_weighted 1/n",
    "halt_fraction": "daily_loss max_daily_loss",
    "drawdown_fraction": "max_drawdown drawdown",
}
KEYS = {word: key for key, words in SYNONYMS.items() for word in words.split()}


class PacesetterError(Exception):
    """Anything the user can put right; the command line prints it as one sentence and exits with 2."""


class ConfigError(PacesetterError):
    """An option, key or argument that is unknown, of the wrong type or out of range."""


class DataError(PacesetterError):
    """Bars that break a rule, or a file that cannot be read as bars."""


class RunError(PacesetterError):
    """A run folder that is missing, damaged or of another kind."""


class LimitWarning(UserWarning):
    """A limit changed what was asked for; the message names the limit and how much it took."""


def check_range(least: float, most: float = math.inf, /, owner: str = "", **values: Any) -> None:
    """Refuse, by its key `owner.name`, a value that is not a finite number from `least` to `most`, both included."""
    for name, value in values.items():
        is_number = not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)
        if not (is_number and least <= value <= most):
            bounds = f"be in {least:g} … {most:g}" if math.isfinite(most) else f"be {least:g} or more"
            raise ConfigError(f"{owner}{'.' if owner else ''}{name}={value!r} must {bounds}")


def check_above(least: float, /, owner: str = "", **values: float) -> None:
    """Refuse, by its key `owner.name`, a value that is not above `least`."""
    for name, value in values.items():
        if not value > least:
            raise ConfigError(f"{owner}{'.' if owner else ''}{name}={value} must be above {least:g}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` in any case of letters, or the list of what is known when nothing comes close."""
    names = sorted(known)
    if meant := [each for each in names if each.rpartition(".")[2] == KEYS.get(name.rpartition(".")[2].lower())]:
        return f"; did you mean '{meant[0]}'?"
    by_lower = {candidate.lower(): candidate for candidate in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{by_lower[close[0]]}'?"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"; known: {', '.join(names[:MOST_NAMES]) or 'none'}{more}"


@contextmanager
def needs(what: str, extra: str) -> Iterator[None]:
    """Where an import in the block fails, refuse by the library's name and say which `extra` brings it."""
    try:
        yield
    except ImportError as problem:
        raise _not_installed(what, str(problem.name), extra) from problem


def check_installed(what: str, extra: str, *modules: str) -> None:
    """Refuse, before any work, where a library is not installed, and say which `extra` brings it; imports nothing."""
    for module in modules:
        if find_spec(module) is None:
            raise _not_installed(what, module, extra)


def extra_with(module: str) -> str | None:
    """The first extra of this package that installs a module; None where none does."""
    from importlib.metadata import PackageNotFoundError, requires  # here: a tenth of what `--help` takes

    try:
        lines = requires("pacesetter") or []
    except PackageNotFoundError:  # the source tree alone
        return None
    pairs = (re.fullmatch(r"([\w.-]+).*extra == ['\"]([\w-]+)['\"].*", line) for line in lines)
    wanted = module.partition(".")[0].lower()
    return next((pair[2] for pair in pairs if pair and pair[1].replace("-", "_").lower() == wanted), None)


def _not_installed(what: str, module: str, extra: str) -> ConfigError:
    return ConfigError(f"{what} needs {module}; install it with: pip install 'pacesetter[{extra}]'")
