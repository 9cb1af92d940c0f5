"""The verdict on a backtest: exactly what its returns are evidence for, or "No evidence"."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pacesetter.errors import DataError
from pacesetter.evaluation.statistics.intervals import Difference, Interval, Statistic, interval, paired_difference
from pacesetter.evaluation.statistics.metrics import checked, sharpe
from pacesetter.evaluation.statistics.overfitting import deflated_sharpe, minimum_track_record, overfitting_probability

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest

__all__ = ["CASH", "Claim", "Verdict", "judge"]

Array = NDArray[Any]
CASH = "cash"
MOST_OVERFITTING = 0.1  # fewer than one in a hundred choices among noise come out below it


@dataclass(frozen=True)
class Claim:
    """Something the returns may be evidence for, and the figures that decide it."""

    holds: bool
    what: str
    figures: str


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a backtest shows; Sharpe ratios are annualised and, where cash is among the baselines, in excess of it.

    sharpe         with its interval at `level`
    track_record   bars that such a ratio takes to be above zero at `level`
    trials         that were made in all, this one included
    deflated       probability that the ratio is more than the best of them has by luck
    baseline       the best baseline apart from cash, of `baselines` in all; None without one
    difference     of the ratios to it; the p-value is the largest of all baselines', as beating the best means
                   beat each, and a test against all of them needs no correction for having picked one
    variants       that were chosen from, and `overfitting`, the probability that the choice fails; None without any
    costs          multiple of the costs -> the ratio under them
    counted        a sentence that says which trials were counted; empty where the ledger of runs was read
    """

    name: str
    bars: int
    level: float
    sharpe: Interval
    track_record: float
    trials: int
    deflated: float
    baselines: int = 0
    baseline: str | None = None
    difference: Difference | None = None
    variants: int = 0
    overfitting: float | None = None
    costs: dict[float, float] = field(default_factory=dict)
    counted: str = ""

    def __repr__(self) -> str:
        return f"Verdict({self.name}: {'evidence' if self.is_evidence else 'no evidence'}. {self.sentence})"

    def _repr_html_(self) -> str:
        """What a notebook shows: evidence or none, and a line for each claim."""
        claims = "".join(
            f"<li>{'✓' if claim.holds else '✗'} {html.escape(claim.what)}: {html.escape(claim.figures)}</li>"
            for claim in self.claims()
        )
        return f"<p><b>{'Evidence' if self.is_evidence else 'No evidence'}</b></p><ul>{claims}</ul>"

    @property
    def beats_cash(self) -> bool:
        """Whether the interval is clear of zero and the ratio is more than luck among all trials."""
        return self.sharpe.low > 0 and self.deflated >= self.level

    @property
    def beats_baselines(self) -> bool:
        """Whether the ratio is above that of every baseline; False without one."""
        return self.difference is not None and self.difference.low > 0 and self.difference.p_value <= 1 - self.level

    @property
    def is_evidence(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims())

    def claims(self) -> list[Claim]:
        """Each claim that was tested, those without evidence first."""
        claims = [self._over_cash()]
        if self.difference is not None:
            what = f"{self.name} beats {self.baseline}, the best of {_count(self.baselines, 'baseline')}"
            claims.append(Claim(self.beats_baselines, what, f"difference of the Sharpe ratios {self.difference}"))
        if self.overfitting is not None:
            share = f"the best falls to or below their median out-of-sample with probability {self.overfitting:.2f}"
            what = f"the selection among {self.variants} variants is more than chance"
            claims.append(Claim(self.overfitting <= MOST_OVERFITTING, what, share))
        return sorted(claims, key=lambda claim: claim.holds)

    @property
    def sentence(self) -> str:
        """The verdict in words: it begins with "No evidence" unless every claim holds."""
        said = [
            f"{f'Evidence at {self.level:.0%}' if claim.holds else 'No evidence'} that {claim.what}: {claim.figures}."
            for claim in self.claims()
        ]
        if self.difference is not None and self.difference.high < 0:
            said.append(f"The interval shows that it was worse than {self.baseline}.")
        return " ".join(filter(None, [*said, *self._under_costs(), self.counted]))

    def _over_cash(self) -> Claim:
        figures = (
            f"Sharpe ratio {self.sharpe} over {self.bars:,} bars, "
            f"more than luck in {_count(self.trials, 'trial')} with probability {self.deflated:.2f}"
        )
        if not self.beats_cash and self.bars < self.track_record < np.inf:
            figures += f"; detecting such a ratio takes about {self.track_record:,.0f} bars"
        return Claim(self.beats_cash, f"{self.name} beats cash", figures)

    def _under_costs(self) -> list[str]:
        ratios = [f"{value:+.2f} at {multiple:g}×" for multiple, value in sorted(self.costs.items())]
        return [f"Sharpe ratio by costs: {', '.join(ratios)}."] if ratios else []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def judge(
    result: Backtest,
    baselines: Sequence[Backtest] = (),
    *,
    other_sharpes: ArrayLike = (),
    variants: ArrayLike | None = None,
    costs: Mapping[float, Backtest] | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Verdict:
    """The verdict on a result beside baselines over the same bars; the one named "cash" is what each must exceed.

    other_sharpes   (trial,) per bar of all other trials for this task on this data, as `Trials.sharpes_beside` gives
    variants        (time, variant) returns of all that this one was chosen from
    costs           multiple of the costs -> the same policy under them
    """
    _check_bars(result, [*baselines, *(costs or {}).values()])
    # Interest on cash is not skill: every ratio is of returns above it.
    riskless = next((checked(other.returns) for other in baselines if other.name == CASH), None)
    excess, ratio = _excess(result, riskless), partial(sharpe, bars_per_year=result.bars_per_year)
    others = {other.name: _excess(other, riskless) for other in baselines if other.name != CASH}
    # The judged one is a trial too: it was looked at like all others.
    tried = np.append(np.asarray(other_sharpes, dtype=np.float64), sharpe(excess))
    options: dict[str, Any] = {"level": level, "draws": draws, "seed": seed}
    return Verdict(
        name=result.name,
        bars=len(excess),
        level=level,
        sharpe=interval(excess, ratio, **options),
        track_record=minimum_track_record(excess, level),
        trials=len(tried),
        deflated=deflated_sharpe(excess, tried),
        **_beside(others, excess, ratio, options),
        **_chosen(variants),
        costs={multiple: float(ratio(_excess(run, riskless))) for multiple, run in (costs or {}).items()},
    )


def _check_bars(result: Backtest, others: Iterable[Backtest]) -> None:
    odd = next((other for other in others if not other.times.equals(result.times)), None)
    if odd is not None:
        raise DataError(
            f"{odd.name} was run over other bars than {result.name} ({len(odd)} and {len(result)}); "
            "evaluate them over the same period"
        )


def _excess(result: Backtest, riskless: Array | None) -> Array:
    """(time,) returns over those of cash."""
    returns = checked(result.returns, f"the returns of {result.name}")
    return returns if riskless is None else returns - riskless


def _beside(others: Mapping[str, Array], excess: Array, ratio: Statistic, options: Mapping[str, Any]) -> dict[str, Any]:
    """The difference to the best baseline, with the p-value of being above them all."""
    if not others:
        return {}
    # Picked with hindsight, which makes the bar higher, not lower.
    best = max(others, key=lambda name: float(ratio(others[name])))
    gaps = {name: paired_difference(excess, other, ratio, **options) for name, other in others.items()}
    # Intersection–union: to beat all, each test must reject, so the largest p-value is valid without correction.
    largest = max(gap.p_value if gap.value > 0 else 1.0 for gap in gaps.values())
    return {"baselines": len(others), "baseline": best, "difference": gaps[best]._replace(p_value=largest)}


def _chosen(variants: ArrayLike | None) -> dict[str, Any]:
    if variants is None:
        return {}
    returns = checked(variants, "the variants' returns")
    return {"variants": returns.shape[1], "overfitting": overfitting_probability(returns)}
