"""`ps.decide`: a bundle's decision for the next bar in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacesetter.data import load
from pacesetter.leadlag.windows import as_panel
from pacesetter.panel import Panel
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import find_bundle
from pacesetter.serving.trader import decision
from pacesetter.serving.trader.session import PaperConfig, fit_panel, load_history
from pacesetter.tables import is_table

__all__ = ["decide", "read_bars"]


def decide(bundle: Any, frame: Any = None, *, account: Mapping[str, object] | None = None) -> decision.DecisionTable:
    """What a bundle decides for the bar after the last one of `frame`, as `pacesetter decide` does.

    bundle    folder or zip of a bundle, or a store of them
    frame     a Panel or a DataFrame of bars, days closing as the bundle's do; None reads those of its own source again
    account   as the API takes it, {"cash": …, "positions": […]}; None is what the policy would hold by now

    >>> import pacesetter as ps
    >>> ps.decide("bundles/no-such-bundle")
    Traceback (most recent call last):
    ...
    pacesetter.errors.RunError: there is no bundle bundles/no-such-bundle; make one: pacesetter bundle RUN
    """
    opened = find_bundle(bundle, SigningKey.find()) if isinstance(bundle, (str, Path)) else bundle
    if frame is None:
        panel = load_history(PaperConfig(), opened)
    else:
        own = opened.config.data.options if "path" in opened.config.data.options else {}
        panel = fit_panel(read_bars(frame, own.get("calendar")), opened)
    return decision.decide(opened, panel, None if account is None else decision.report_account(account, "account"))


def read_bars(frame: object, calendar: object) -> Panel:
    """A panel as it is, or one of a table; its days close by the `calendar` of the bundle's own files, if any."""
    if calendar is None or isinstance(frame, Panel) or not is_table(frame):
        return as_panel(frame)
    return load(frame, calendar=calendar)
