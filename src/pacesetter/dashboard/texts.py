"""Every word that the pages say, by key, in English; other languages are in `languages`, and their gaps are English.

Texts of lower packages, such as an error's sentence or a finding's title, are shown as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from string import Formatter

from pacesetter.dashboard.persian import PERSIAN
from pacesetter.dashboard.settings import current_settings
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.evaluation.report.persian import in_persian

__all__ = [
    "ENGLISH",
    "LANGUAGES",
    "RIGHT_TO_LEFT",
    "check_language",
    "column",
    "language",
    "right_to_left",
    "say",
    "use_reader",
]

ENGLISH: dict[str, str] = {
    "language": "English",
    "app.title": "Pacesetter",
    "app.language": "Language",
    "app.results": "Results",
    "app.chart": "Chart: {title}. The tables of this page have its numbers.",
    "app.failed": "This section could not be drawn ({kind}: {problem}). The rest of the page is not affected.",
    "app.save": "Save {file}",
    "choose.run": "Run",
    "choose.runs": "Runs to compare",
    "choose.all": "all",
    "choose.some": "choose one or more",
    "choose.parts": "Show",
    "choose.columns": "Columns",
    # ---- runs
    "runs.title": "Runs",
    "runs.empty": "There is no run under `{folder}` yet. Create one with `make demo` or `pacesetter run`, or give "
    "another folder: `pacesetter dashboard FOLDER`.",
    "runs.count": "{shown} of {count} runs. Sharpe ratio with its 95 % interval, out-of-sample; "
    "if a regime is selected, ratio and total return are for that regime.",
    "runs.since": "from",
    "runs.until": "to",
    "runs.compare": "Compare",
    "runs.baselines": "show the baselines of the first run",
    "runs.equity": "Equity on the test set, start = 100",
    "runs.reward": "reward {value:+.4f}: {low:+.4f} … {high:+.4f}",
    "runs.not_judged": "None of these runs has been evaluated yet: `pacesetter evaluate RUN`.",
    "runs.report": "Report",
    "runs.no_report": "None of these runs has a report: `pacesetter run` and `pacesetter evaluate RUN` write one.",
    "runs.open": "Open the report",
    "runs.save_report": "Save the report",
    "runs.inside": "show the runs inside jobs",
    "runs.aligned": "align the curves at their first bar",
    "runs.bar": "bars since the start",
    "runs.differences": "Settings in which they differ",
    "runs.same": "The chosen runs have the same settings.",
    "runs.tag": "Tags are given by `pacesetter tag RUN WORD`.",
    "runs.damaged": "the folder is damaged or not a run ({kind})",
    "runs.no_returns": "{path} cannot be read ({kind}); evaluate the run again",
    "mlflow.show": "Show what MLflow tracked",
    "mlflow.missing": "MLflow is not installed; install it with: pip install 'pacesetter[track]'",
    "mlflow.unreadable": "the MLflow store cannot be read ({problem}); give another by --mlflow",
    # ---- results
    "league.title": "League",
    "league.empty": "No league has been played here yet: `pacesetter lab league quick`.",
    "league.text": "Annualised Sharpe ratio on the test set after costs, mean over seeds; share of what the oracle "
    "earns; seeds with a t statistic above 1.9.",
    "league.picture": "Sharpe ratio, with its 95 % interval",
    "ablations.title": "Ablations",
    "ablations.empty": "Nothing has been ablated here yet: `pacesetter lab ablate features`.",
    "ablations.text": "The method without one part at a time; the gap to the whole method is paired by seed.",
    "ablations.picture": "Sharpe difference to the whole method, with its 95 % interval",
    "decisions.title": "Decisions",
    "decisions.empty": "No gates have been decided here yet: `pacesetter validate RUN gates=final`.",
    "decisions.text": "What the latest set of gates said of each run.",
    "options.title": "Options",
    "options.empty": "No run here has learned options: `pacesetter train agent=options`.",
    "options.text": "How long options last and how often each is chosen, at the end of training.",
    "options.picture": "Options over the steps of training",
    "pareto.title": "Pareto front",
    "pareto.empty": "No run here has several objectives: `pacesetter train task=fleet agent=mosac`.",
    "pareto.text": "{count} of {all} preferences are on the front: none of the others is better in every objective.",
    "pareto.picture": "Each preference on the validation set",
    "pareto.front": "on the front",
    "pareto.other": "not on it",
    # ---- lead–lag
    "leadlag.title": "Lead–lag",
    "leadlag.empty": "There are no bars under `{folder}`. Run `pacesetter leadlag data=sample`.",
    "leadlag.method": "Score",
    "leadlag.date": "Window ends on",
    "leadlag.lookback": "Lookback (bars)",
    "leadlag.now": "Who leads now",
    "leadlag.over_time": "Leadership over time",
    "leadlag.agent_tab": "The agent's lookback",
    "leadlag.matrix": "Leadership by {method}; faint: not significant",
    "leadlag.network": "Links by {method}, dashed: opposite sign; {drawn} of {links} drawn",
    "leadlag.leader": "leader (strongest first)",
    "leadlag.follower": "follower",
    "unit.minutes": "minutes",
    "unit.hours": "hours",
    "unit.days": "days",
    "unit.trading_days": "trading days",
    "unit.years": "years",
    "unit.bars": "bars",
    "leadlag.ranking": "Leader score",
    "leadlag.no_run": "there is no run '{run}' under {root}; reload the page",
    "leadlag.no_window": "a window needs a run, a method, an end and a lookback, the last two whole numbers",
    "leadlag.no_link": "no link passes",
    "leadlag.no_leader": "none beyond chance",
    "leadlag.sentence": "Leaders by {method} over {window} to {day}: {leaders}. Orange leads, purple follows. "
    "Links: {links}, of which flagged (one bar, thin trading): {flagged}. Chance of any false link: {level}, by the "
    "test of the report.",
    "leadlag.timeline": "Leader scores of windows of {window}; faint: not significant",
    "leadlag.concentration": "{windows} windows, one every {step} bars. Concentration of leading in the newest: "
    "Herfindahl {herfindahl:.3f}, Gini {gini:.2f}.",
    "leadlag.anomalies": "Anomaly of the structure (robust standard deviations)",
    "leadlag.score": "score",
    "leadlag.warning": "warning",
    "leadlag.alarm": "alarm",
    "leadlag.no_lookback": "This run has no lookback agent. `pacesetter run` trains one, and "
    "so does `pacesetter train task=lookback`.",
    "leadlag.ask": "Ask the agent for its windows",
    "leadlag.agent": "agent",
    "leadlag.fixed": "fixed {bars}",
    "leadlag.histogram": "How often the agent chose each window",
    "leadlag.bars": "bars",
    # ---- training live
    "live.title": "Training live",
    "live.empty": "No run under `{folder}` has metrics yet. Start one: `pacesetter train data=sandbox`.",
    "live.no_training": "{folder} trains nothing; choose a run of pacesetter train",
    "live.step": "step",
    "live.steps": "{step:,} of {steps:,} steps",
    "live.status": "State",
    "live.left": "Time left",
    "live.rate": "Steps a second",
    "live.best": "Best validation score",
    "live.stage": "Curriculum stage {stage}",
    "live.mix": "Action mix",
    "live.quiet": "No metrics for {seconds:,.0f} s; the process may be gone. Resume with `pacesetter train --resume`.",
    "live.no_gates": "No gates have been measured yet.",
    "live.gates_failed": "Gates failed: {names}.",
    "metric.reward": "Reward of an episode",
    "metric.returns": "Mean return of a bar, all agents",
    "metric.entropy": "Policy entropy (nats)",
    "metric.sharpe": "Rolling Sharpe ratio in training",
    "metric.trade_rate": "Share of steps with a trade",
    "status.finished": "finished",
    "status.running": "running",
    "status.failed": "failed",
    "status.stopped": "stopped",
    "status.damaged": "damaged",
    "resource.memory_mb": "Memory (MiB)",
    "resource.peak_memory_mb": "Peak memory (MiB)",
    "resource.gpu_memory_mb": "GPU memory (MiB)",
    "resource.processor_seconds": "Processor (s)",
    "resource.environment": "In environments (s)",
    "resource.rollout": "In rollouts (s)",
    "resource.policy": "In the policy (s)",
    "resource.update": "In updates (s)",
    # ---- agent
    "agent.title": "Agent",
    "agent.empty": "No run under `{folder}` has a stored episode yet. Train one with `pacesetter train data=sandbox`, "
    "then evaluate it with `pacesetter evaluate RUN`.",
    "agent.no_episode": "This run has no stored episode: `pacesetter evaluate RUN` creates one.",
    "agent.episode": "Episode",
    "episode..": "validation",
    "episode.evaluation": "judged",
    "episode.judge": "evaluated by the pipeline",
    "agent.does_tab": "What it does",
    "agent.replay_tab": "Replay",
    "agent.why_tab": "Why",
    "agent.fleet_tab": "Fleet",
    "agent.front_tab": "Objectives",
    "agent.windows_tab": "Windows",
    "windows.old": "{folder} was evaluated by an earlier version; `pacesetter evaluate RUN` stores what is shown here.",
    "agent.orders": "Bars with a buy or sell order",
    "agent.by_hour": "Buys minus sells, by hour (UTC)",
    "agent.by_weekday": "Buys minus sells, by weekday",
    "agent.option_symbol": "Options of",
    "agent.rewards": "Reward components, summed over the episode",
    "agent.total": "reward",
    "agent.no_reward": "No reward was recorded in this episode.",
    "agent.bars": "Bars played",
    "agent.symbols": "Symbols (the most traded first)",
    "agent.explain": "Explain this agent",
    "agent.explain_hint": "Runs the agent on its first test bars and attributes its actions to features, assets and "
    "lags. It needs torch and captum and takes a while.",
    "agent.in_report": "The agents of a fleet are explained in the run's report; `pacesetter evaluate RUN` writes one.",
    "side.buy": "buy",
    "side.hold": "hold",
    "side.sell": "sell",
    "weekday.0": "Mon",
    "weekday.1": "Tue",
    "weekday.2": "Wed",
    "weekday.3": "Thu",
    "weekday.4": "Fri",
    "weekday.5": "Sat",
    "weekday.6": "Sun",
    "fleet.empty": "This run has no fleet. `pacesetter run agent=ppo` trains one, and so does `pacesetter train "
    "task=fleet`.",
    "front.empty": "This run has no front. Train one: `pacesetter train task=fleet agent=mosac agent.preferences=8`.",
    "front.point": "Point of the front",
    "front.figures": "Validation set: Sharpe ratio {sharpe:+.2f}, drawdown {drawdown:.1%}, growth {growth:+.1%}.",
    "front.request": "A request to `/v1/decide` asks for this point by:",
    "front.serve": "Serve this point by default",
    "front.served": "Point {place} is chosen: backtests play it, the next `pacesetter bundle` serves it by default.",
    "fleet.by": "Colour and order by",
    "fleet.worst": "worst first",
    "fleet.tiles": "{count} agents by {by}; ✕ struggles",
    "fleet.well": "does well",
    "fleet.multiples": "Validation Sharpe ratios during training, each from {low:.1f} to {high:.1f}; grey is zero",
    # ---- book
    "book.title": "Book",
    "book.empty": "No paper trader's journal is open, or it has no bar yet. Trade with `pacesetter paper BUNDLE`, then "
    "`pacesetter dashboard --journal sqlite:///paper/journal.db`.",
    "book.halted": "#### HALTED: {reason}\nNothing is traded until a person resumes.",
    "book.reducing": "Reducing only: {reason}",
    "book.run": "Trading run",
    "book.course": "Equity, drawdown, exposure",
    "book.equity": "Equity",
    "book.cash": "Cash",
    "book.exposure": "Exposure",
    "book.drawdown": "Drawdown",
    "book.state": "Risk state",
    "book.data_age": "Data age at the newest bar",
    "book.bars_old": "{bars:.1f} bars",
    "age.days": "{count:,} days",
    "age.hours": "{hours} h {minutes} min",
    "age.minutes": "{count} min",
    "age.seconds": "{count} s",
    "book.newest": "Newest bar {time} UTC, {age} ago; {bars:,} bars in the journal.",
    "book.positions": "Positions",
    "book.pnl": "Profit and loss by symbol",
    "book.options": "Options in force",
    "book.limits": "Limits used",
    "book.no_limits": "This journal has no record of its limits.",
    "book.denied": "Orders refused so far: {what}.",
    "book.alerts": "Alerts and events",
    "book.every_event": "Every event ({count})",
    "column.times": "times",
    "column.first": "first",
    "column.last": "latest",
    "book.no_alerts": "Nothing to report.",
    "book.trades": "Trades",
    "book.no_bar": "the journal has no bar of run '{run}' yet; wait for one",
    "book.no_journal": "{url} is not a paper trader's journal; give the one that pacesetter paper writes",
    "book.unreadable": "the journal at {url} cannot be read ({reason}); check the address",
    "book.address": "the journal cannot be opened ({kind}); give sqlite:///FILE or postgresql://USER@HOST/NAME",
    "state.active": "active",
    "state.reducing": "reducing",
    "state.halted": "HALTED",
    "limit.reduce_fraction": "loss of the day: reduce only",
    "limit.halt_fraction": "loss of the day: halt",
    "limit.drawdown_fraction": "drawdown: halt",
    "limit.gross_fraction": "gross exposure",
    "limit.symbol_fraction": "exposure per symbol",
    "limit.day_count": "orders per symbol today",
    "limit.stale_bars": "data age (bars): no entries",
    "programme.title": "Programme",
    "programme.empty": "There is no programme under `{folder}` yet. Start one: `pacesetter lab programme "
    "+preset=prototype_offline`.",
    "programme.done": "{done} of {count} phases",
    "programme.run": "{run}, started {started}",
    "programme.report": "Report of the phase",
    "phase.done": "done",
    "phase.running": "running",
    "phase.waiting": "waiting",
    "phase.failed": "failed",
    "phase.stopped": "stopped",
    "phase.rolled_back": "rolled back",
    "column.phase": "phase",
    "column.state": "state",
    "column.decision": "decision",
    "column.seconds": "seconds",
    "column.result": "result",
    "kill.title": "Stop all trading",
    "kill.no_key": "There is no admin key, so there is no button here: `pacesetter keys add NAME --scopes admin`, or "
    "stop trading with `pacesetter halt`.",
    "kill.token": "Admin key",
    "kill.locked": "The button appears after an admin key is entered.",
    "kill.wrong": "This is not an admin key.",
    "kill.button": "HALT NOW",
    "kill.reason": "halted on the dashboard by {name}",
    # ---- columns of tables; a column that is not here is shown by its own name
    "column.label": "run",
    "column.name": "folder",
    "column.tags": "tags",
    "column.yearly_return": "annual return",
    "column.drawdown": "drawdown",
    "column.verdict": "verdict",
    "column.status": "state",
    "column.policy": "policy",
    "column.problem": "problem",
    "column.half_width": "±",
    "column.gap": "gap to the whole",
    "column.gap_half_width": "± of the gap",
    "column.p_adjusted": "p, adjusted",
    "column.reliable": "reliable seeds",
    "column.chosen": "chosen",
    "column.started": "started (UTC)",
    "column.task": "task",
    "column.regime": "regime",
    "column.entrant": "method",
    "column.seeds": "seeds",
    "column.exposure": "exposure",
    "column.efficient": "on the front",
    "column.utility": "utility",
    "column.variant": "without",
    "column.validation.score": "validation score",
    "column.sharpe": "Sharpe ratio",
    "column.interval": "95 % interval",
    "column.gates": "gates passed",
    "column.leads": "windows as top leader",
    "column.mean_rank": "mean rank",
    "column.contribution": "share of leading",
    "column.reward_se": "± (one standard error)",
    "column.mean_lookback": "mean window (bars)",
    "column.way": "acting",
    "column.pnl": "P&L",
    "column.unrealised": "unrealised P&L",
    "column.realised": "realised P&L",
    "column.share": "share",
    "column.reason": "reason",
    "column.order_kind": "order",
    "column.symbol": "symbol",
    "column.data": "data",
    "column.preset": "preset",
}
LANGUAGES: dict[str, dict[str, str]] = {"en": ENGLISH, "fa": PERSIAN}
RIGHT_TO_LEFT = ("fa",)
ASKED: ContextVar[str | None] = ContextVar("asked", default=None)  # the language that a request names
# Unicode's marks of a part with a direction of its own
FIRST_STRONG_ISOLATE, RIGHT_TO_LEFT_ISOLATE, END_OF_ISOLATE = "\u2068", "\u2067", "\u2069"
_readers: list[Callable[[], str | None]] = []


def use_reader(ask: Callable[[], str | None]) -> None:
    """Ask this for the language that the present reader chose, before that of the settings."""
    _readers[:] = [ask]


def language() -> str:
    """That of the present reader, else that of the settings."""
    chosen = ASKED.get() or (_readers[0]() if _readers else None)
    return chosen if chosen in LANGUAGES else current_settings().language


def say(key: str, **values: object) -> str:
    """The text of a key in the reader's language, with its values set in."""
    chosen = language()
    template = LANGUAGES[chosen].get(key, ENGLISH[key])
    if chosen not in RIGHT_TO_LEFT or not values:
        return template.format(**values)
    # Between backquotes is what one copies into a shell, where an invisible letter would do harm.
    parts = template.split("`")
    return "`".join((CODE if place % 2 else ISOLATING).format(part, **values) for place, part in enumerate(parts))


def in_own_language(sentence: str) -> str:
    """A sentence of an evaluation in the reader's language, where its Persian is known."""
    return (in_persian(sentence) if language() == "fa" else "") or sentence


def right_to_left(text: str) -> str:
    """The text as one that runs from right to left, wherever it is drawn."""
    return f"{RIGHT_TO_LEFT_ISOLATE}{text}{END_OF_ISOLATE}"


class _Isolating(Formatter):
    """Sets values in so that each keeps its own direction: in Persian a bare 2024-03-21 reads 21-03-2024."""

    def format_field(self, value: object, format_spec: str) -> str:
        return f"{FIRST_STRONG_ISOLATE}{super().format_field(value, format_spec)}{END_OF_ISOLATE}"


CODE, ISOLATING = Formatter(), _Isolating()


def column(name: str) -> str:
    """The heading of a table's column; its own name where none is given."""
    key = f"column.{name}"
    return say(key) if key in ENGLISH else name.replace("_", " ")


def check_language(name: str) -> str:
    """The language, if it is known."""
    if name not in LANGUAGES:
        raise ConfigError(f"there are no texts in '{name}'{did_you_mean(name, LANGUAGES)}")
    return name
