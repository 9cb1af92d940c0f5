"""What moves a policy's action: integrated gradients by feature, asset and lag (Sundararajan, Taly, Yan 2017; captum).

With f the explained output, x an observation and b the baseline, the attribution of input i is

    a_i = (x_i − b_i) ∫₀¹ ∂f/∂x_i (b + α(x − b)) dα        so that        Σ_i a_i = f(x) − f(b)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, DataError, needs
from pacesetter.evaluation.explain.behaviour import BehaviourFinding, Names
from pacesetter.evaluation.report.pictures import PALETTE, style_figure
from pacesetter.policies.why import Push, why_sentence

if TYPE_CHECKING:
    import torch

    from pacesetter.learning.sb3.readout import Readout

    Tensors = tuple[torch.Tensor, ...]

__all__ = ["Attributions", "integrated_gradients"]

STEPS = (64, 256, 1024)
AT_ONCE = 2048  # points of all paths evaluated together
MOST_BARS = 25


@dataclass(frozen=True, eq=False)
class Attributions:
    """Attributions of each entry as (observation, asset, bar, feature), with size 1 for an axis that it lacks.

    outputs, baselines   (observation,) the explained output of each observation and of its baseline
    assets               names of the asset axis; for agents of one symbol, the symbol of each observation, or none
    names                entry -> names of its features
    """

    entries: Mapping[str, Array]
    outputs: Array
    baselines: Array
    assets: tuple[str, ...]
    names: Names

    def __post_init__(self) -> None:
        wanted = self._width if self._width > 1 else len(self.outputs)
        if self.assets and len(self.assets) != wanted:
            raise DataError(f"{len(self.assets)} symbols given for {wanted} assets or observations; name each one")

    @property
    def _width(self) -> int:
        """Assets of an observation."""
        return max(int(entry.shape[1]) for entry in self.entries.values())

    @property
    def gaps(self) -> Array:
        """(observation,) Σ attributions − (output − baseline output): 0 up to the discretisation of the integral."""
        total = sum(entry.sum(axis=(1, 2, 3)) for entry in self.entries.values())
        # Completeness, Σ a = f(x) − f(b) (Sundararajan et al. 2017, proposition 1): what is left is the integral's
        # error.
        gaps: Array = total - (self.outputs - self.baselines)
        return gaps

    def by_feature(self) -> pd.DataFrame:
        """A row for each feature, strongest first: `influence` is the mean of Σ|a|, `effect` that of Σ a."""
        parts = [
            _measure_influence(entry.swapaxes(1, 3), {"entry": name, "feature": list(self.names[name])})
            for name, entry in self.entries.items()
        ]
        return _rank_influence(pd.concat(parts))

    def by_asset(self) -> pd.DataFrame:
        """A row for each asset, strongest first; refuses agents of one symbol where it is not named."""
        if self._width > 1:
            parts = [
                _measure_influence(entry, {"asset": self.assets})
                for entry in self.entries.values()
                if entry.shape[1] > 1
            ]
            # Summed over entries: an asset's influence is that of all it shows.
            return _rank_influence(pd.concat(parts).groupby("asset", as_index=False).sum())
        if not self.assets:
            raise ConfigError("each of these observations has one symbol; name it in `symbols`")
        flat = np.concatenate([entry.reshape(len(entry), -1) for entry in self.entries.values()], axis=1)
        each = pd.DataFrame({"asset": self.assets, "influence": np.abs(flat).sum(axis=1), "effect": flat.sum(axis=1)})
        return _rank_influence(each.groupby("asset", as_index=False).mean())

    def by_lag(self) -> pd.DataFrame:
        """A row for each bar of the windows, the newest, lag 0, first; refuses observations without a window."""
        windows = [entry for entry in self.entries.values() if entry.shape[2] > 1]
        if not windows:
            raise ConfigError("these observations have no window, so they have no lags")
        # Windows have the newest bar last.
        lags = np.arange(windows[0].shape[2])[::-1]
        parts = [_measure_influence(entry.swapaxes(1, 2), {"lag": lags}) for entry in windows]
        return _add_shares(pd.concat(parts).groupby("lag", as_index=False).sum())

    def apply_signs(self, signs: Mapping[int, float]) -> Attributions:
        """The same with some observations' attributions turned round by a sign."""
        factors = np.array([signs.get(row, 1.0) for row in range(len(self.outputs))])
        entries = {name: entry * factors[:, None, None, None] for name, entry in self.entries.items()}
        return replace(self, entries=entries, outputs=self.outputs * factors, baselines=self.baselines * factors)

    def pushes(self, row: int) -> list[Push]:
        """What each feature does to the explained output of one observation, bars and assets summed."""
        return [
            Push(feature, math.nan, float(size))
            for name, entry in self.entries.items()
            for feature, size in zip(self.names[name], entry[row].sum(axis=(0, 1)), strict=True)
        ]

    def explain_orders(self, rows: Sequence[int], orders: Sequence[str]) -> BehaviourFinding:
        """A sentence for each order in words, of the observations `rows`."""
        said = [why_sentence(order, self.pushes(row)) for row, order in zip(rows, orders, strict=True)]
        strongest = sorted(self.pushes(rows[-1]), key=lambda push: -abs(push.size))[:10]
        bars = go.Bar(y=[push.feature for push in strongest], x=[push.size for push in strongest], orientation="h")
        figure = style_figure(go.Figure(bars), f"Pushes behind the latest: {orders[-1]}", 140 + 18 * len(strongest))
        figure.update_yaxes(autorange="reversed", type="category", automargin=True)
        text = "The features behind the latest orders by integrated gradients, and the strongest against each."
        return BehaviourFinding("Why these orders", text, pd.DataFrame({"order": orders, "why": said}), figure)

    def findings(self) -> list[BehaviourFinding]:
        """Findings by feature and, where there are any, by asset and by lag."""
        findings = [self._finding("feature", self.by_feature())]
        if self.assets:
            findings.append(self._finding("asset", self.by_asset()))
        if any(entry.shape[2] > 1 for entry in self.entries.values()):
            findings.append(self._finding("lag", self.by_lag()))
        return findings

    def _finding(self, kind: str, table: pd.DataFrame) -> BehaviourFinding:
        shown = table[:MOST_BARS]
        labels = shown[kind].astype(str).str.replace("_", " ")
        # Length is the size of the influence, colour its direction: effects of both signs cancel, sizes do not.
        colours = np.where(shown["effect"] >= 0, PALETTE[0], PALETTE[5])
        bars = go.Bar(y=labels, x=shown["share"], orientation="h", marker={"color": colours})
        figure = style_figure(go.Figure(bars), f"Share of influence by {kind}", 140 + 18 * len(shown))
        figure.update_xaxes(tickformat=".0%").update_yaxes(autorange="reversed", type="category", automargin=True)
        text = (
            f"Integrated gradients over {len(self.outputs):,} observations against the baseline; blue raises the "
            f"explained action on average, orange lowers it. Largest gap to completeness {np.abs(self.gaps).max():.1e}."
        )
        return BehaviourFinding(f"Attribution by {kind}", text, table, figure)


def _measure_influence(entry: Array, columns: Mapping[str, object]) -> pd.DataFrame:
    """Influence and effect along axis 1 of attributions (observation, ·, ·, ·)."""
    influence = np.abs(entry).sum(axis=(2, 3)).mean(axis=0)
    return pd.DataFrame({**columns, "influence": influence, "effect": entry.sum(axis=(2, 3)).mean(axis=0)})


def _add_shares(table: pd.DataFrame) -> pd.DataFrame:
    # tiny instead of 0: a policy that ignores everything has shares of 0, not NaN.
    return table.assign(share=table["influence"] / max(table["influence"].sum(), np.finfo(float).tiny))


def _rank_influence(table: pd.DataFrame) -> pd.DataFrame:
    return _add_shares(table).sort_values("influence", ascending=False, kind="stable", ignore_index=True)


def integrated_gradients(
    agent: object,
    observations: Mapping[str, Array],
    names: Names | None = None,
    symbols: Sequence[str] = (),
    *,
    output: int | None = None,
    baseline: Mapping[str, Array] | None = None,
    tolerance: float = 0.01,
) -> Attributions:
    """Attributions of an agent's action on a batch of observations (observation, …).

    symbols    names of the asset axis, or for agents of one symbol the symbol of each observation
    output     which action or number is explained; None takes the probability of the chosen discrete actions, or the
               sum of the continuous ones
    baseline   entries of one observation to start from; the mean observation of the normaliser where not given
    tolerance  the path has 64 steps, then 256, then 1,024, until the largest gap to completeness is below this share of
               the largest gain
    """
    import torch

    from pacesetter.learning.sb3.readout import readout

    network = readout(agent)
    tensors = network.tensors(observations)
    starts = {name: _start(centre, (baseline or {}).get(name)) for name, centre in network.centre().items()}
    # Masks are fixed along the path: half a mask means nothing.
    masks = [name for name in tensors if name not in starts]
    # Chosen once at the observation itself, or the explained output would change along the path.
    weights = _output_weights(network, tensors, output)

    def explain(*parts: torch.Tensor) -> torch.Tensor:
        entries = dict(zip([*starts, *masks], parts[:-1], strict=True))
        return (network.actions(entries) * parts[-1]).sum(-1)

    inputs, fixed = tuple(tensors[name] for name in starts), (*(tensors[name] for name in masks), weights)
    origin = tuple(start.expand_as(entry) for start, entry in zip(starts.values(), inputs, strict=True))
    with torch.no_grad():
        outputs, baselines = (explain(*part, *fixed).double().numpy() for part in (inputs, origin))
    for steps in STEPS:
        parts = zip(starts, _integrate_gradients(explain, inputs, origin, fixed, steps), strict=True)
        entries = {name: _four_axes(part, name in network.encoder.layout.assets) for name, part in parts}
        attributions = Attributions(entries, outputs, baselines, tuple(symbols), _feature_names(entries, names or {}))
        # Completeness (Σ a = f(x) − f(b)) is exact for the integral: what is missing is the error of its steps.
        if np.abs(attributions.gaps).max() <= tolerance * np.abs(outputs - baselines).max():
            break
    return attributions


def _integrate_gradients(
    function: Callable[..., torch.Tensor], inputs: Tensors, origin: Tensors, fixed: Tensors, steps: int
) -> Tensors:
    """captum's integral of the gradients along the straight path from `origin` to `inputs`.

    Rectifiers bend the path, so the midpoint rule is as near as Gauss–Legendre, whose nodes take longer to find.
    """
    with needs("attribution", "evaluate"):
        from captum.attr import IntegratedGradients
    gradients: Tensors = IntegratedGradients(function).attribute(
        inputs,
        origin,
        additional_forward_args=fixed,
        n_steps=steps,
        method="riemann_middle",
        # captum takes at least one point of each observation at a time, and warns of a smaller size.
        internal_batch_size=max(AT_ONCE, len(inputs[0])),
    )
    return gradients


def _start(centre: torch.Tensor, given: Array | None) -> torch.Tensor:
    import torch

    return centre if given is None else torch.as_tensor(given, dtype=centre.dtype).expand_as(centre)


def _output_weights(network: Readout, inputs: Mapping[str, torch.Tensor], output: int | None) -> torch.Tensor:
    """(observation, output) weights whose product with the outputs is what is explained; fixed along the path."""
    import torch

    with torch.no_grad():
        outputs = network.actions(inputs)
    if output is not None:
        if not 0 <= output < outputs.shape[1]:
            raise ConfigError(f"output={output} is not one of the policy's {outputs.shape[1]} outputs, counted from 0")
        return torch.nn.functional.one_hot(torch.full((len(outputs),), output), outputs.shape[1]).to(outputs)
    if not network.options:
        return torch.ones_like(outputs)
    choices = outputs.reshape(len(outputs), -1, network.options)
    return torch.nn.functional.one_hot(choices.argmax(-1), network.options).flatten(1).to(outputs)


def _four_axes(part: torch.Tensor, is_asset: bool) -> Array:
    """(observation, asset, bar, feature) of an entry's attributions."""
    values = part.detach().double().numpy()
    if is_asset:
        return values[..., None, None] if values.ndim == 2 else values[:, :, None] if values.ndim == 3 else values
    return values[:, None] if values.ndim == 3 else values[:, None, None]


def _feature_names(entries: Mapping[str, Array], names: Names) -> dict[str, tuple[str, ...]]:
    """The given names of each entry's features, or its own name with a number; refuses a wrong count of them."""
    labels = {}
    for entry, values in entries.items():
        width, given = values.shape[3], tuple(names.get(entry, ()))
        if given and len(given) != width:
            raise DataError(f"'{entry}' has {width} features, but {len(given)} names were given")
        labels[entry] = given or ((entry,) if width == 1 else tuple(f"{entry} {k}" for k in range(width)))
    return labels
