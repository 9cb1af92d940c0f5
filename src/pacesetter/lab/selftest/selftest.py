"""`pacesetter lab selftest data=…`: what the engine and an agent find on bars like the user's, and what they make up.

A relation is planted into copies of the bars, and another set of copies holds none. The smallest strength that is
found with 80 % power is sought by bisection; then the agent is tried at a stated strength and on noise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from scipy.stats import binomtest

from pacesetter.build import Plan, build_panel
from pacesetter.build.trading import Trading
from pacesetter.errors import check_range
from pacesetter.evaluation.report.page import Section, write_report
from pacesetter.evaluation.statistics.metrics import sharpe
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.run.train import train
from pacesetter.lab.selftest.surrogates import Planted, Surrogates
from pacesetter.leadlag.answer import StrengthMeasure, find_links
from pacesetter.panel import Panel
from pacesetter.runs import Run

__all__ = ["Selftest", "SelftestResult", "Tally", "run_selftest"]

FOUND = 0.8  # share of copies in which a relation must be found to count as detectable
STRONGEST = 0.95
LEVEL = 0.05
CRITICAL = 1.645  # t statistic, one-sided at 5 %
QUIET = ("track.mlflow=off", "track.tensorboard=off", "track.progress=false")


@dataclass(frozen=True)
class Selftest:
    """How thorough it is.

    copies      of each kind for the engine        agent_copies   of each kind for the agent; 0 leaves it out
    strength    of the relation that the agent is tried on, a correlation between bar and next bar
    method      of the engine                      draws          of its null
    halvings    of the interval in which the smallest strength is sought
    steps       of the agent's training
    """

    copies: int = 40
    agent_copies: int = 10
    strength: float = 0.3
    method: str = "ccf_peak"
    draws: int = 100
    halvings: int = 5
    steps: int = 12_288

    def __post_init__(self) -> None:
        check_range(2, owner="selftest", copies=self.copies, draws=self.draws)
        check_range(0, owner="selftest", agent_copies=self.agent_copies)
        check_range(1, owner="selftest", halvings=self.halvings, steps=self.steps)
        check_range(0, STRONGEST, owner="selftest", strength=self.strength)


@dataclass(frozen=True)
class Tally:
    """How often something happened, with the exact binomial interval at 95 %."""

    count: int
    tried: int

    @property
    def share(self) -> float:
        return self.count / self.tried if self.tried else float("nan")

    @property
    def interval(self) -> tuple[float, float]:
        interval = binomtest(self.count, self.tried).proportion_ci(0.95)
        return float(interval.low), float(interval.high)

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.count} of {self.tried} ({low:.0%} to {high:.0%})"


@dataclass(frozen=True)
class SelftestResult:
    """What came out.

    bars             in which the engine looked
    false_links      noise copies in which the engine named a link
    detectable       smallest strength found with 80 % power, NaN where even the strongest was not
    detected         planted links found at that strength       worth_bps   what such a relation moves a bar
    agent_found      planted copies on which the agent's returns were above zero at 5 %, one-sided
    agent_claims     noise copies on which they were
    """

    bars: int
    false_links: Tally
    detectable: float
    detected: Tally
    worth_bps: float
    strength: float
    strength_bps: float
    agent_found: Tally | None
    agent_claims: Tally | None

    @property
    def setting(self) -> str:
        """What the smallest effect holds for."""
        return f"On bars like yours, where a quarter of the symbols each follow another over {self.bars:,} bars"

    @property
    def sentences(self) -> list[str]:
        """The answer in words, the smallest detectable effect first."""
        if np.isnan(self.detectable):
            said = [f"{self.setting}, even relations of correlation 0.95 have less than 80 % power."]
        else:
            effect = f"a relation worth {self.worth_bps:.1f} bps a bar (correlation {self.detectable:.2f})"
            chance = f"{self.detected.share:.0%}: {self.detected} links"
            said = [f"{self.setting}, {effect} is found with probability {chance}."]
        calm = Tally(self.false_links.tried - self.false_links.count, self.false_links.tried)
        said.append(f"Where nothing was planted, the engine named no link in {calm} copies.")
        if self.agent_found is not None and self.agent_claims is not None:
            said.append(
                f"The direct agent earned more than chance after costs in {self.agent_found} copies with a relation "
                f"worth {self.strength_bps:.1f} bps a bar, and in {self.agent_claims} copies with none."
            )
        return said


def run_selftest(config: Plan, settings: Selftest, console: Console | None = None) -> tuple[SelftestResult, Run]:
    """The self-test on the configured bars; leaves selftest.json and report.html in a run folder."""
    console = console or Console()
    panel = build_panel(config)
    copies = Surrogates(panel)
    engine = _Engine(settings)
    run = Run.create(config.runs, "selftest", config.to_dict())
    noise = [copies.noise(seed) for seed in range(settings.copies)]
    false_links = Tally(sum(bool(engine.links(copy)) for copy in noise), settings.copies)
    console.print(f"noise: links named in {false_links} copies", highlight=False)
    detectable, counts = _find_smallest(copies, engine, settings, console)
    agent_found = agent_claims = None
    if settings.agent_copies:
        agent_found, agent_claims = _agents(config, copies, settings, console)
    worth = copies.worth_bps(detectable)
    at = (settings.strength, copies.worth_bps(settings.strength))
    result = SelftestResult(len(panel) - 1, false_links, detectable, counts, worth, *at, agent_found, agent_claims)
    _store(run, result, panel)
    return result, run


# ---- the engine -----------------------------------------------------------------------------------------------------


class _Engine:
    """Links of a whole copy, as a study finds them in its window."""

    def __init__(self, settings: Selftest) -> None:
        self.gauge, self.draws = StrengthMeasure(settings.method), settings.draws

    def links(self, copy: Planted) -> set[tuple[int, int]]:
        moves = np.diff(np.log(copy.panel.close), axis=0)
        links = find_links(moves, self.gauge, draws=self.draws, level=LEVEL)
        return {(int(i), int(j)) for i, j in zip(*np.nonzero(links.mask_linked(LEVEL)), strict=True)}

    def recall(self, copies: Sequence[Planted]) -> Tally:
        """Planted links that were found, of all."""
        hits = sum(len(self.links(copy) & set(copy.links)) for copy in copies)
        return Tally(hits, sum(len(copy.links) for copy in copies))


def _find_smallest(copies: Surrogates, engine: _Engine, settings: Selftest, console: Console) -> tuple[float, Tally]:
    """The smallest strength that is found often enough, by bisection on the same copies, and how often it was."""

    def recall(strength: float) -> Tally:
        # The same seeds at every strength: recall then rises with strength, and bisection can rely on it.
        planted = [copies.plant_leaders(seed, strength) for seed in range(settings.copies)]
        tally = engine.recall(planted)
        console.print(f"strength {strength:.3f}: found {tally} links", highlight=False)
        return tally

    return bisect_strength(recall, settings.halvings)


def bisect_strength(recall: Callable[[float], Tally], halvings: int) -> tuple[float, Tally]:
    """The smallest strength whose recall is at least four of five; NaN where the strongest has less."""
    low, high, best = 0.0, STRONGEST, recall(STRONGEST)
    if best.share < FOUND:
        # Not even the strongest is found often enough: there is nothing to bisect.
        return float("nan"), best
    for _ in range(halvings):
        middle = (low + high) / 2
        tally = recall(middle)
        if tally.share >= FOUND:
            high, best = middle, tally
        else:
            low = middle
    return high, best


# ---- the agent ------------------------------------------------------------------------------------------------------


def _agents(config: Plan, copies: Surrogates, settings: Selftest, console: Console) -> tuple[Tally, Tally]:
    tallies = []
    for label, make in (
        ("planted", lambda seed: copies.plant_leaders(seed, settings.strength)),
        ("noise", copies.noise),
    ):
        with tempfile.TemporaryDirectory() as folder:
            where = Path(folder)
            claims = [
                _claims(make(seed).panel, config, settings, where / str(seed)) for seed in range(settings.agent_copies)
            ]
        tallies.append(Tally(sum(claims), len(claims)))
        console.print(f"agent on {label} copies: above chance in {tallies[-1]}", highlight=False)
    return tallies[0], tallies[1]


def _claims(panel: Panel, config: Plan, settings: Selftest, folder: Path) -> bool:
    """Whether a direct agent, trained on the first bars, earns more than chance on the last, after costs."""
    folder.mkdir(parents=True)
    path = panel.save(folder / "bars.parquet")
    learned = resolve(["task=fleet", "agent=direct", *QUIET, f"data.path='{path}'", f"train.steps={settings.steps}"])
    shares = config.train.shares
    # The user's split and costs: the question is what would be found under them.
    own = replace(learned, runs=str(folder), seed=config.seed, train=replace(learned.train, shares=shares))
    if isinstance(config.task, Trading):
        own = replace(own, task=replace(own.trading, market=config.market))
    result = train(own, console=Console(quiet=True))
    played = StoredRun(result.run.folder).play()
    return bool(float(sharpe(played.returns, 1.0)) * np.sqrt(len(played)) > CRITICAL)  # its t statistic


# ---- what is left ---------------------------------------------------------------------------------------------------


def _store(run: Run, result: SelftestResult, panel: Panel) -> None:
    run.write_json("selftest.json", asdict(result) | {"sentences": result.sentences})
    rows = (
        ("noise copies in which the engine named a link", str(result.false_links)),
        ("smallest correlation with 80 % power", f"{result.detectable:.3f}"),
        ("what such a relation moves, bps a bar", f"{result.worth_bps:.1f}"),
        ("planted links found at that strength", str(result.detected)),
        ("copies with a relation on which the agent was above chance", str(result.agent_found or "not tried")),
        ("copies without one on which it was", str(result.agent_claims or "not tried")),
    )
    section = Section("Smallest detectable effect", " ".join(result.sentences), (), ("what", "result"), rows)
    write_report(Path(run.path("report.html")), "self-test", [section], panel.notes)
    run.finish(sentences=result.sentences)
