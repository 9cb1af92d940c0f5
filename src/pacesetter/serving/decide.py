"""`ps.decide`: a bundle's decision for the next bar in Python."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pacesetter.leadlag.windows import as_panel
from pacesetter.serving.bundle.signature import SigningKey
from pacesetter.serving.bundle.store import find_bundle
from pacesetter.serving.trader import decision
from pacesetter.serving.trader.session import PaperConfig, fit_panel, load_history

__all__ = ["decide"]


def decide(bundle: Any, frame: Any = None, *, account: Mapping[str, object] | None = None) -> decision.DecisionTable:
    """What a bundle decides for the bar after the last one of `frame`, as `pacesetter decide` does.

    bundle    folder or zip of a bundle, or a store of them
    frame     a DataFrame or Panel of bars; None reads those of the bundle's own source again
    account   as the API takes it, {"cash": …, "positions": […]}; None is what the policy would hold by now

    >>> import pacesetter as ps
    >>> ps.decide("bundles/no-such-bundle")
    Traceback (most recent call last):
    ...
    pacesetter.errors.RunError: there is no bundle bundles/no-such-bundle; make one: pacesetter bundle RUN
    """
    opened = find_bundle(bundle, SigningKey.find()) if isinstance(bundle, (str, Path)) else bundle
    panel = load_history(PaperConfig(), opened) if frame is None else fit_panel(as_panel(frame), opened)
    return decision.decide(opened, panel, None if account is None else decision.report_account(account, "account"))
