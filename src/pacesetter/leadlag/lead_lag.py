"""LeadLag: who leads whom over any window of a panel, by any registered estimator, as labelled frames and pictures."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pacesetter.arrays import Array
from pacesetter.errors import ConfigError, check_range
from pacesetter.leadlag.answer.answer import StrengthMeasure, answer_window
from pacesetter.leadlag.answer.intervals import chance_text, leader_table
from pacesetter.leadlag.answer.links import Control, Test, find_links
from pacesetter.leadlag.engine import Engine
from pacesetter.leadlag.groups import FIELDS
from pacesetter.leadlag.pictures import matrix_picture, to_plotly
from pacesetter.leadlag.prepare import Preparation
from pacesetter.leadlag.structure.changes import lead_periods
from pacesetter.leadlag.structure.ranking import row_mean
from pacesetter.leadlag.study import GroupFinding, Study
from pacesetter.leadlag.windows import bar_of, bars_in
from pacesetter.tables import PANDAS, as_kind

if TYPE_CHECKING:
    import plotly.graph_objects

__all__ = ["LeadLag", "Ranking"]

REPR_ROWS = 8  # of a ranking in a notebook


class Ranking(pd.DataFrame):
    """Symbols in order of leadership; when printed, a last line says if none leads or follows beyond chance."""

    @property
    def _constructor(self) -> type[Ranking]:
        return Ranking

    @property
    def note(self) -> str:
        """What is said of all symbols together; empty where some leads or follows beyond chance."""
        return str(self.attrs.get("note", ""))

    def __repr__(self) -> str:
        return super().__repr__() + (f"\n{self.note}" if self.note else "")

    def _repr_html_(self) -> str:
        return str(self.to_html()) + (f"<p>{self.note}</p>" if self.note else "")


class LeadLag(Engine):
    """Lead–lag of a panel in frames: matrix, ranking, links, groups, changes. `Engine` has options and arrays."""

    def _repr_html_(self) -> str:
        """What a notebook shows: the line of `repr`, and once it is fitted the ranking over the usual window."""
        line = f"<p>{html.escape(repr(self))}</p>"
        if not self._bars:
            return line
        if self.kind_ != PANDAS:
            return line
        ranked = self.ranking()
        note = f"<p>{ranked.note}</p>" if ranked.note else ""
        return line + str(ranked.head(REPR_ROWS).to_html(float_format="{:+.3f}".format)) + note

    def matrix(self, end: object = None, lookback: object = None) -> pd.DataFrame:
        """Scores of one window as a frame, leaders in rows: positive where the row leads the column.

        end        bar by place, date or moment; the last bar when left out
        lookback   bars, or a length of time such as "30D"; `windows.usual_window` when left out

        >>> import pacesetter as ps
        >>> market = ps.load("synthetic", symbols=4, bars=600, strength=0.8, groups=1, seed=1)
        >>> ps.LeadLag("ccf_lag1").fit(market).matrix(lookback="2Y").shape
        (4, 4)
        """
        scores = self.scores(*self._window(end, lookback))
        frame = pd.DataFrame(scores, index=_names("leader", self.symbols_), columns=_names("follower", self.symbols_))
        return as_kind(frame, self.kind_)

    def ranking(
        self, end: object = None, lookback: object = None, *, level: float = 0.05, draws: int = 200, seed: int = 0
    ) -> Ranking:
        """Symbols in order of leadership in one window; `end` and `lookback` as in `matrix`.

        leadership   mean of the symbol's row of `matrix`      leads    how many symbols it is ahead of
        low, high    its interval, which holds for all symbols together with probability 1 − level (block bootstrap)
        p_value      chance of so large a score among all symbols where nothing leads
        role         leader or follower where the interval is clear of zero and the null agrees, else –

        >>> import pacesetter as ps
        >>> market = ps.load("synthetic", symbols=4, bars=600, strength=0.8, groups=1, seed=1)
        >>> ps.LeadLag("ccf_lag1").fit(market).ranking(lookback=250).columns.tolist()
        ['leadership', 'low', 'high', 'p_value', 'leads', 'role']
        """
        window, gauge = self._increments(end, lookback), self._strength_measure()
        answer = answer_window(window, self.symbols_, gauge)
        links = find_links(window, gauge, answer, draws=draws, level=level, seed=seed)
        table = leader_table(window, gauge, answer, links, draws=draws, level=level, seed=seed)
        leads = pd.Series((answer.leadership > 0).sum(axis=1), list(self.symbols_), name="leads")
        columns = {"score": "leadership", "sure_low": "low", "sure_high": "high"}
        frame = Ranking(
            table.rename(columns=columns).join(leads)[["leadership", "low", "high", "p_value", "leads", "role"]]
        )
        if (table["role"] == "–").all():
            why = chance_text(table) or "none is clear of zero"
            frame.attrs["note"] = f"{why} ({1 - level:.0%}, all symbols together)"
        return as_kind(frame, self.kind_)

    def links(
        self,
        end: object = None,
        lookback: object = None,
        *,
        test: Test = "predicts",
        control: Control = "max",
        level: float = 0.05,
        draws: int = 200,
        seed: int = 0,
    ) -> pd.DataFrame:
        """Who leads whom beyond chance, with sign and delay: false links in at most `level` of markets without any.

        test, control   see `answer.find_links`
        """
        window, gauge = self._increments(end, lookback), self._strength_measure()
        answer = answer_window(window, self.symbols_, gauge)
        links = find_links(window, gauge, answer, test=test, control=control, draws=draws, level=level, seed=seed)
        # NaN, an unscored pair, compares as not linked.
        pairs = zip(*np.nonzero(links.mask_linked(level)), strict=True)
        rows = [
            (
                *(answer.symbols[i], answer.symbols[j], answer.forward[i, j], answer.relation(i, j)),
                *(answer.delays[i, j], links.p_values[i, j]),
            )
            for i, j in pairs
        ]
        columns = ["leader", "follower", "strength", "relation", "delay", "p_value"]
        frame = pd.DataFrame(rows, columns=columns).sort_values("strength", ascending=False, ignore_index=True)
        return as_kind(frame, self.kind_)

    def groups(
        self,
        by: object = None,
        end: object = None,
        lookback: object = None,
        *,
        level: float = 0.05,
        draws: int = 200,
        seed: int = 0,
    ) -> GroupFinding:
        """Do the members of one group lead those of another, pooled: `.table()`, `.earned` and `.periods`.

        by   {name: [symbols]} with `*` for all others, a CSV file of symbol and group, `liquidity`, `size` or `sector`;
             by traded value when left out
        """
        last, back = self._window(end, lookback)
        study = Study(
            self.method,
            back,
            increments=self.reading.increments,
            groups="liquidity" if by is None else by,
            level=level,
            draws=draws,
            seed=seed,
            engine={name: value for name, value in self._options.items() if value is not None},
        )
        panel = self.panel_.rows(0, last + 1)
        finding = study.at(panel).find_groups(panel)
        if finding is None:
            raise ConfigError(
                f"{self.method} has no groups, or by={by!r} names none; use {', '.join(FIELDS)} or a dict"
            )
        return finding

    def changes(self, leader: str, follower: str, delay: int | None = None) -> pd.DataFrame:
        """When a lead began and ended over all bars, with intervals for the dates: see `structure.changes`.

        delay   bars after which the follower answers; the strongest over all bars when left out
        """

        self._require_fit()
        i, j = self.panel_.position(leader), self.panel_.position(follower)
        if i == j:
            raise ConfigError(f"{leader} is named as leader and as follower; name two symbols")
        whole, chosen_from = self._increments(None, self._bars - 1), 1
        if delay is None:
            gauge = self._strength_measure()
            delay = int(np.nan_to_num(answer_window(whole, self.symbols_, gauge).delays[i, j], nan=1.0))
            chosen_from = max(gauge.max_lag, 1)
        check_range(1, self._bars // 2, delay=delay)
        return lead_periods(whole[:, i], whole[:, j], delay, self.index_[1:], chosen_from=chosen_from)

    def rolling(self, lookback: object, step: int = 1) -> pd.DataFrame:
        """Mean score of each symbol over the others at every `step`-th bar: (time, symbol), leaders above zero.

        >>> import pacesetter as ps
        >>> market = ps.load("synthetic", symbols=4, bars=600, seed=1)
        >>> ps.LeadLag("ccf_lag1").fit(market).rolling(250, step=100).shape
        (4, 4)
        """
        last = self._window(None, lookback)[1]
        ends, lookbacks = self.windows(last, step)
        blocks = [row_mean(block) for _, block in self._blocks(ends, lookbacks, None)]
        return as_kind(pd.DataFrame(np.concatenate(blocks), self.index_[ends], list(self.symbols_)), self.kind_)

    def plot(self, end: object = None, lookback: object = None) -> plotly.graph_objects.Figure:
        """The matrix of one window as a picture, leaders first; pairs that are not linked at 5 % are faint."""
        scores = self.scores(*self._window(end, lookback))
        linked = find_links(self._increments(end, lookback), self._strength_measure()).mask_linked(0.05)
        return to_plotly(matrix_picture(scores, self.symbols_, significant=linked | linked.T))

    def _window(self, end: Any, lookback: Any) -> tuple[int, int]:
        self._require_fit()
        last = bar_of(self.index_, end)
        back = bars_in(self.index_, last, lookback) if 0 <= last < self._bars else lookback
        last, back = self._check_window(last, back)
        self._strength_measure().check(back)
        return last, back

    def _increments(self, end: object, lookback: object) -> Array:
        """(time, symbol) increments of a window, as the answer of a study reads them."""
        window = self._window(end, lookback)  # first, since it refuses an engine that is not fitted
        return Preparation(self.reading.residual).window(self.series_.observed_window(*window))

    def _strength_measure(self) -> StrengthMeasure:
        return StrengthMeasure(self.method, **self._options)


def _names(role: str, symbols: tuple[str, ...]) -> pd.Index[str]:
    return pd.Index(symbols, name=role)
