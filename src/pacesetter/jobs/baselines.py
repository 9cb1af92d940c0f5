"""`pacesetter baseline`: baselines over the test set of a plan, and the supervised ones, which are trained first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pacesetter.build import Plan, build_fold, build_panel, build_table
from pacesetter.build.trading import Trading
from pacesetter.data.splits import Fold
from pacesetter.evaluation.report.page import Section
from pacesetter.features import FeatureTable
from pacesetter.jobs.pipeline.show import show_sections
from pacesetter.panel import Panel
from pacesetter.words import count_noun

__all__ = ["JudgedMarket", "play_baselines", "train_classifiers"]

Tell = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class JudgedMarket:
    """The bars of a plan with their features, the fold whose test bars are played, and the rules of the account."""

    panel: Panel
    table: FeatureTable
    fold: Fold
    task: Trading

    @classmethod
    def of(cls, config: Plan) -> JudgedMarket:
        """The market of a plan; refuses a task that baselines do not play."""
        config.problem.check("baseline")
        panel = build_panel(config)
        return cls(panel, build_table(config, panel), build_fold(config, panel), config.trading)


def train_classifiers(
    market: JudgedMarket, folder: Path, networks: Sequence[str], folds: int, tell: Tell
) -> list[Section]:
    """The supervised baselines: trained, judged, timed and stored; networks that are named have their own width."""
    from pacesetter.agents.encoders import NETWORKS as OWN
    from pacesetter.methods.supervised.judgement import HIDDEN, NETWORKS, run_supervised

    options: dict[str, object] = {"window_bars": market.task.window_bars}
    if networks:
        options["width"] = max(OWN[name].width for name in networks)
    supervised = run_supervised(
        market.panel,
        market.table,
        market.fold,
        networks=networks or NETWORKS,
        market=market.task.market,
        cache=folder,
        options=options,
        folds=folds,
    )
    sections = [finding.section() for finding in supervised.findings()]
    show_sections(sections, HIDDEN)
    tell(f"→ {folder}")
    return sections


def play_baselines(market: JudgedMarket, names: Sequence[str], tell: Tell) -> Section:
    """The baselines named, or all that are possible, and which are not."""
    from pacesetter.evaluation.baselines.catalogue import drop_equal, evaluate_baselines, left_out_sentence
    from pacesetter.evaluation.report.judgement_page import BRIEF, results_section
    from pacesetter.policies.market_rows import market_bank

    panel, test = market.panel, market.fold.test
    start, bank = time.perf_counter(), market_bank(panel, market.table)
    results = evaluate_baselines(panel, int(test[0]), names, market=market.task.market, bank=bank)
    spent, notes = time.perf_counter() - start, []
    if not names:
        results, same = drop_equal(results)
        notes = [sentence for sentence in (same, left_out_sentence(bank)) if sentence]
    section = results_section(results)
    show_sections([section], BRIEF)
    for sentence in notes:
        tell(sentence)
    symbols = count_noun(len(panel.symbols), "symbol")
    tell(f"{len(results)} baselines × {len(test)} bars × {symbols} in {spent:.1f} s")
    return replace(section, text=" ".join([section.text, *notes]))
