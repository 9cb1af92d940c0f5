"""The verdict on a backtest in one of three headlines: no edge found, edge but not better than X, better than all.

Views are judged apart from the account: what they add is the account's returns less those of the same account without
them, which is its base, or cash. Then the account as a whole stands beside every baseline.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from pacesetter.arrays import Array
from pacesetter.errors import DataError
from pacesetter.evaluation.statistics.intervals import (
    Difference,
    Interval,
    Statistic,
    alpha_interval,
    interval,
    paired_differences,
)
from pacesetter.evaluation.statistics.metrics import MONTH_DAYS, alpha_beta, check_returns, sharpe, sums_stretch
from pacesetter.evaluation.statistics.overfitting import deflated_sharpe, minimum_track_record, overfitting_probability
from pacesetter.stamps import bars_per_day

if TYPE_CHECKING:
    from pacesetter.evaluation.backtest.backtest import Backtest
from pacesetter.words import count_noun

__all__ = ["CASH", "Claim", "Verdict", "judge"]

CASH = "cash"
MARKETS = ("hold", "equal_weight")  # baselines that stand for the market where no index is named
ROUNDING = 1e-12  # of returns
MOST_OVERFITTING = 0.1  # fewer than one in a hundred choices among noise come out below it


class Claim(NamedTuple):
    """Something the returns may show, whether they do, and the figures that decide it."""

    holds: bool
    what: str
    figures: str


@dataclass(frozen=True, repr=False)
class Verdict:
    """What a backtest shows; Sharpe ratios are annualised and, where cash is among the baselines, in excess of it.

    sharpe         of the account, with its interval at `level`
    sharpe_bars    the same by single bars; `sharpe` is by sums of 21 days where these are clearly more volatile
    without        what the account is without its views: cash, or its base in words
    views          Sharpe ratio of what the views add to the base, and `views_bars` by single bars; None without a base,
                   where it is `sharpe`
    added          annual return that they add; None without a base
    alpha, beta    annual return of what the views add that `market`, hold or the index, does not explain; None without
    is_idle        whether the views never changed the account
    track_record   bars that such a ratio takes to be above zero at `level`
    trials         that were made in all, this one included
    deflated       probability that the ratio is more than the best of them has by luck
    baseline       the best baseline apart from cash, of `baselines` in all, and its ratio; None without one
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
    sharpe_bars: float = float("nan")
    without: str = CASH
    views: Interval | None = None
    views_bars: float = float("nan")
    added: Interval | None = None
    market: str | None = None
    alpha: Interval | None = None
    beta: float = float("nan")
    is_idle: bool = False
    baselines: int = 0
    baseline: str | None = None
    baseline_sharpe: float = float("nan")
    difference: Difference | None = None
    variants: int = 0
    overfitting: float | None = None
    costs: dict[float, float] = field(default_factory=dict)
    counted: str = ""

    def __repr__(self) -> str:
        return f"Verdict({self.name}: {self.headline}. {self.sentence})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the headline, and a line for each claim."""
        claims = "".join(
            f"<li>{'✓' if claim.holds else '✗'} {html.escape(claim.what)}: {html.escape(claim.figures)}</li>"
            for claim in self.claims()
        )
        return f"<p><b>{html.escape(self.headline)}</b></p><ul>{claims}</ul>"

    @property
    def headline(self) -> str:
        """No edge found; edge, not better than X; or better than all."""
        if not self.has_edge:
            return "No edge found"
        if self.difference is None:
            return "Edge, compared with cash alone"
        return "Better than all" if self.beats_baselines else f"Edge, not better than {self.baseline}"

    @property
    def edge(self) -> Interval:
        """Sharpe ratio of what the views add to the account without them."""
        return self.sharpe if self.views is None else self.views

    @property
    def beats_cash(self) -> bool:
        """Whether the interval of the edge is clear of zero, and the ratio more than luck among all trials."""
        return not self.is_idle and self.edge.low > 0 and self.deflated >= self.level

    @property
    def is_explained(self) -> bool:
        """Whether the market's own returns explain what was added: the interval of alpha is not above zero."""
        return self.alpha is not None and not self.alpha.low > 0

    @property
    def has_edge(self) -> bool:
        """Whether the views added something that is neither luck, nor the market's, nor a choice among variants."""
        chosen_by_luck = self.overfitting is not None and self.overfitting > MOST_OVERFITTING
        return self.beats_cash and not self.is_explained and not chosen_by_luck

    @property
    def beats_baselines(self) -> bool:
        """Whether the account's ratio is above that of every baseline; False without one."""
        return self.difference is not None and self.difference.low > 0 and self.difference.p_value <= 1 - self.level

    @property
    def is_evidence(self) -> bool:
        """Whether there is an edge, and the account is better than every baseline it was compared with."""
        return self.has_edge and (self.difference is None or self.beats_baselines)

    def claims(self) -> list[Claim]:
        """Each claim that was tested: the edge, the baselines, and the selection."""
        claims = [self._edge_claim()]
        if self.difference is not None and not (self.is_idle and self.views is None):
            claims.append(self._baseline_claim(self.difference))
        if self.overfitting is not None:
            holds = self.overfitting <= MOST_OVERFITTING
            what = f"The selection among {self.variants} variants is {'more' if holds else 'not more'} than chance"
            share = f"the best falls to or below their median out-of-sample with probability {self.overfitting:.2f}"
            claims.append(Claim(holds, what, share))
        return claims

    @property
    def sentence(self) -> str:
        """The verdict in words: an idle account's in two sentences, any other's with a sentence for each claim."""
        said = [f"{claim.what}: {claim.figures}." for claim in self.claims()]
        if self.is_idle and self.views is None:
            return " ".join(filter(None, [*said, self._best_beside(), self.counted]))
        if self.views is not None:
            said.insert(1, f"The account as a whole: Sharpe ratio {_ratio(self.sharpe, self.sharpe_bars)}.")
        return " ".join(filter(None, [*said, *self._under_costs(), self.counted]))

    def _edge_claim(self) -> Claim:
        holds = self.beats_cash and not self.is_explained
        what = f"Edge at {100 * self.level:.0f} %" if holds else "No edge found"
        if self.is_idle:
            held = "never held a position" if self.views is None else f"has no views, so that it is {self.without}"
            return Claim(False, what, f"{self.name} {held} in {self.bars:,} bars")
        if self.views is None:
            figures = f"Sharpe ratio of {self.name} over cash {_ratio(self.sharpe, self.sharpe_bars)}"
        else:
            ratio = _ratio(self.views, self.views_bars)
            figures = f"{self.name} adds {_percent(self.added)} a year to {self.without}, Sharpe ratio {ratio}"
        trials = count_noun(self.trials, "trial")
        figures += f", {self.bars:,} bars, deflated Sharpe probability {100 * self.deflated:.0f} % ({trials})"
        if not self.beats_cash and self.bars < self.track_record < np.inf:
            figures += f"; detecting such a ratio takes about {self.track_record:,.0f} bars"
        if self.beats_cash and self.is_explained:
            figures += f"; {self.market} explains it: alpha {_percent(self.alpha)} a year at beta {self.beta:.2f}"
        return Claim(holds, what, figures)

    def _baseline_claim(self, difference: Difference) -> Claim:
        among = "" if self.baselines == 1 else f", the best of {self.baselines:,} baselines"
        word = "Better" if self.beats_baselines else "Worse" if difference.high < 0 else "Not better"
        return Claim(self.beats_baselines, f"{word} than {self.baseline}{among}", f"Sharpe difference {difference}")

    def _best_beside(self) -> str:
        if self.baseline is None:
            return ""
        among = "" if self.baselines == 1 else f", the best of {self.baselines:,} baselines,"
        return f"On the same bars {self.baseline}{among} had a Sharpe ratio of {self.baseline_sharpe:+.2f}."

    def _under_costs(self) -> list[str]:
        ratios = [f"{value:+.2f} at {multiple:g}×" for multiple, value in sorted(self.costs.items())]
        return [f"Sharpe ratio by costs: {', '.join(ratios)}."] if ratios else []


def _ratio(ratio: Interval, by_bars: float) -> str:
    """With where it comes from, unless by single bars."""
    is_by_bars = np.isnan(by_bars) or np.isclose(ratio.value, by_bars)
    return str(ratio) if is_by_bars else f"{ratio} from {MONTH_DAYS}-day sums ({by_bars:+.2f} from bars)"


def _percent(share: Interval | None) -> str:
    return "" if share is None else f"{share.value:+.1%} ({share.low:+.1%} to {share.high:+.1%})"


def judge(
    result: Backtest,
    baselines: Sequence[Backtest] = (),
    *,
    without: Backtest | None = None,
    index: tuple[str, ArrayLike] | None = None,
    other_sharpes: ArrayLike = (),
    variants: ArrayLike | None = None,
    costs: Mapping[float, Backtest] | None = None,
    level: float = 0.95,
    draws: int = 1000,
    seed: int = 0,
) -> Verdict:
    """The verdict on a result beside baselines over the same bars; the one named "cash" is what each must exceed.

    without         the same account without its views, its base alone; None: cash
    index           name and returns (time,) of a market index, which is a baseline too
    other_sharpes   (trial,) per bar of all other trials for this task on this data, as `Trials.sharpes_beside` gives
    variants        (time, variant) returns of all that this one was chosen from
    costs           multiple of the costs -> the same policy under them
    """
    _check_bars(result, [*baselines, *([] if without is None else [without]), *(costs or {}).values()])
    # Interest on cash is not skill: every ratio is of returns above it.
    riskless = next((check_returns(other.returns) for other in baselines if other.name == CASH), None)
    month, year = MONTH_DAYS * bars_per_day(result.times), result.bars_per_year
    excess = _excess(result, riskless)
    added = excess if without is None else excess - _excess(without, riskless)
    others = {other.name: _excess(other, riskless) for other in baselines if other.name != CASH}
    if index is not None:
        others[index[0]] = check_returns(index[1], f"the returns of {index[0]}") - (
            0.0 if riskless is None else riskless
        )
    # The judged one is a trial too: it was looked at like all others.
    tried = np.append(np.asarray(other_sharpes, dtype=np.float64), sharpe(added))
    options: DrawOptions = {"level": level, "draws": draws, "seed": seed}
    account = _by_month(excess, month, year)
    return Verdict(
        name=result.name,
        bars=len(excess),
        level=level,
        sharpe=interval(excess, account, **options),
        sharpe_bars=float(sharpe(excess, year)),
        is_idle=float(np.abs(added).max()) < ROUNDING,
        track_record=minimum_track_record(added, level),
        trials=len(tried),
        deflated=deflated_sharpe(added, tried),
        **_views(without, added, month, year, options),
        **_market(others, added, index, year, options),
        **_compare_with_baselines(others, excess, month, year, options),
        **_overfitting_figures(variants),
        costs={
            multiple: float(_by_month(_excess(run, riskless), month, year)(_excess(run, riskless)))
            for multiple, run in (costs or {}).items()
        },
    )


class DrawOptions(TypedDict):
    """How every interval of a verdict is drawn."""

    level: float
    draws: int
    seed: int


def _by_month(returns: Array, month: int, year: float) -> Statistic:
    """The Sharpe ratio, by sums of a month where those of these returns are clearly more volatile than single bars."""
    stretch = sums_stretch(returns, month)
    return lambda drawn: sharpe(drawn, year) / stretch


def _views(without: Backtest | None, added: Array, month: int, year: float, options: DrawOptions) -> dict[str, Any]:
    """What the views add to a base; nothing where there is none."""
    if without is None:
        return {}
    return {
        "without": without.name,
        "views": interval(added, _by_month(added, month, year), **options),
        "views_bars": float(sharpe(added, year)),
        "added": interval(added, lambda drawn: drawn.mean(axis=0) * year, **options),
    }


def _market(
    others: Mapping[str, Array],
    added: Array,
    index: tuple[str, ArrayLike] | None,
    year: float,
    options: DrawOptions,
) -> dict[str, Any]:
    """What is left of the added returns beside the market's: an account that holds the market has found nothing."""
    names = (*([] if index is None else [index[0]]), *MARKETS)
    market = next((name for name in names if name in others and np.ptp(others[name]) > 0), None)
    if market is None:
        return {}
    alpha = alpha_interval(added, others[market], year, **options)
    return {"market": market, "alpha": alpha, "beta": float(alpha_beta(added, others[market], year)[1])}


def _check_bars(result: Backtest, others: Iterable[Backtest]) -> None:
    odd = next((other for other in others if not other.times.equals(result.times)), None)
    if odd is not None:
        raise DataError(
            f"{odd.name} was run over other bars than {result.name} ({len(odd)} and {len(result)}); "
            "evaluate them over the same period"
        )


def _excess(result: Backtest, riskless: Array | None) -> Array:
    """(time,) returns over those of cash."""
    returns = check_returns(result.returns, f"the returns of {result.name}")
    return returns if riskless is None else returns - riskless


def _compare_with_baselines(
    others: Mapping[str, Array], excess: Array, month: int, year: float, options: DrawOptions
) -> dict[str, Any]:
    """The difference to the best baseline, with the p-value of being above them all."""
    if not others:
        return {}
    ratios = {name: _by_month(other, month, year) for name, other in others.items()}
    values = {name: float(ratios[name](other)) for name, other in others.items()}
    # Picked with hindsight, which makes the bar higher, not lower.
    best, own = max(values, key=lambda name: values[name]), _by_month(excess, month, year)
    names = list(others)
    differences = paired_differences(
        excess, [others[name] for name in names], own, [ratios[name] for name in names], **options
    )
    gaps = dict(zip(names, differences, strict=True))
    # Intersection–union: to beat all, each test must reject, so the largest p-value is valid without correction.
    largest = max(gap.p_value if gap.value > 0 else 1.0 for gap in gaps.values())
    return {
        "baselines": len(others),
        "baseline": best,
        "baseline_sharpe": values[best],
        "difference": gaps[best]._replace(p_value=largest),
    }


def _overfitting_figures(variants: ArrayLike | None) -> dict[str, Any]:
    if variants is None:
        return {}
    returns = check_returns(variants, "the variants' returns")
    return {"variants": returns.shape[1], "overfitting": overfitting_probability(returns)}
