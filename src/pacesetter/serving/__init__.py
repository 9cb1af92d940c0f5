"""Serving a policy: bundle, API, risk guard, journal, paper trader, monitoring."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pacesetter.serving.api.runtime import BundlePolicy, Runtime
    from pacesetter.serving.bundle.bundle import Bundle

__all__ = ["Bundle", "BundlePolicy", "Runtime"]


def __getattr__(name: str) -> Any:
    """The three that a program begins with; imported on demand, so that the kill switch needs nothing of theirs."""
    from importlib import import_module

    modules = {"Bundle": "bundle.bundle", "BundlePolicy": "api.runtime", "Runtime": "api.runtime"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{modules[name]}"), name)
