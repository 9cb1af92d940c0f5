"""Concentration of leadership: contribution per asset, its concentration, and how often each asset leads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from pacesetter.arrays import Floats
from pacesetter.leadlag.observed import mean_observed, observed_assets, ratio
from pacesetter.leadlag.structure.ranking import mark_leaders, ranks

__all__ = ["contributions", "gini", "herfindahl", "leadership_table"]


def contributions(matrices: Floats) -> Floats:
    """(…, N) share of all leading that each asset does: Σ_j max(S_ij, 0) over the total; they sum to one.

    NaN for an unobserved asset, and for all assets where none leads.
    """
    lead = np.nansum(np.clip(matrices, 0, None), axis=-1)
    return np.where(observed_assets(matrices), ratio(lead, lead.sum(axis=-1, keepdims=True)), np.nan)


def herfindahl(shares: Floats) -> Floats:
    """(…,) Σ share²: 1/n when n assets share evenly, 1 when one has all; NaN where no share is known."""
    known = np.isfinite(shares).any(axis=-1)
    return np.where(known, np.nansum(np.square(shares), axis=-1), np.nan)


def gini(shares: Floats) -> Floats:
    """(…,) Gini coefficient over the observed assets: 0 when even, (n−1)/n when one has all."""
    ordered = np.sort(shares, axis=-1)  # NaN last
    count = np.isfinite(ordered).sum(axis=-1)
    place = np.arange(1, ordered.shape[-1] + 1)
    # Gini from order statistics: Σ (2k − n − 1)·x₍ₖ₎ / (n·Σx), x ascending.
    weighted = np.nansum((2 * place - count[..., None] - 1) * ordered, axis=-1)
    return ratio(weighted, count * np.nansum(ordered, axis=-1))


def leadership_table(leadership: Floats, shares: Floats, symbols: Sequence[str], quantile: float = 0.2) -> pd.DataFrame:
    """One row per symbol, the largest contributor first, of leader scores and `contributions` (windows, N).

    Columns: `contribution` (mean share of the leading), `leads` (share of the windows it is observed in that find it
    in the top `quantile`), `mean_rank`, and `windows` in which it is observed.
    """
    windows = np.isfinite(leadership).sum(axis=0)
    columns = {
        "contribution": mean_observed(shares, axis=0),
        "leads": ratio(mark_leaders(leadership, quantile).sum(axis=0), windows),
        "mean_rank": mean_observed(ranks(leadership), axis=0),
        "windows": windows,
    }
    table = pd.DataFrame(columns, index=pd.Index(symbols, name="symbol"))
    return table.sort_values("contribution", ascending=False, kind="stable")
