"""Agent: what it does, when, for what reward and why; an episode replayed; and the fleet at a glance."""

from __future__ import annotations

import json
from pathlib import Path

import streamlit as st

from pacesetter.build import stage_run
from pacesetter.dashboard import behaviour
from pacesetter.dashboard.choices import has_choices, read_choices
from pacesetter.dashboard.fleet import figures_of, fleet_folder, multiples_figure, sorted_fleet, tiles_figure
from pacesetter.dashboard.folders import RunFacts
from pacesetter.dashboard.settings import current_settings
from pacesetter.dashboard.texts import say
from pacesetter.dashboard.views.parts import all_runs, chart, choose_run, contain_errors, table
from pacesetter.evaluation.backtest.episode import Episode
from pacesetter.evaluation.explain.behaviour import BehaviourFinding
from pacesetter.evaluation.fleet.agents import AGENTS, fleet_sentence, read_agents
from pacesetter.evaluation.fleet.agents_page import action_figure, validation_curves
from pacesetter.methods.master.page import allocations_section, read_allocations
from pacesetter.methods.objectives.page import choose_point, front_figure, read_front
from pacesetter.methods.options.page import options_figure
from pacesetter.runs import ALLOCATIONS, FRONT

__all__ = ["show_agent"]

FIRST_SYMBOLS = 4  # drawn until the reader chooses: more lines cannot be told apart
MONEY = {"pnl": "%+.2f", "return": "percent", "entry_price": "%.2f", "exit_price": "%.2f", "quantity": "%+.4f"}
SHARES = dict.fromkeys(("growth", "cash", "turnover"), "percent") | {"positions": "%.1f"}
SHARES |= dict.fromkeys(("sharpe", "difference", "low", "high"), "%+.2f")


def show_agent() -> None:
    """The page."""
    runs = [run for run in all_runs() if _has_agent(run)]
    if not runs:
        st.info(say("agent.empty", folder=current_settings().runs))
        return
    run = choose_run(sorted(runs, key=lambda run: not behaviour.episode_folders(run.folder)), "agent.run")
    parts = {"does": _draw_behaviour, "replay": _replay, "why": _draw_attributions, "fleet": _fleet, "front": _front}
    if has_choices(run.folder):  # it chooses windows, and trades nothing
        parts = {"windows": _windows}
    key = "agent.windows" if "windows" in parts else "agent.tab"
    # Reruns when a tab is opened, so that only the open one is computed.
    tabs = st.tabs([say(f"agent.{name}_tab") for name in parts], key=key, on_change="rerun")
    for tab, draw in zip(tabs, parts.values(), strict=True):
        if tab.open:
            with tab, contain_errors():
                draw(run)


def _has_agent(run: RunFacts) -> bool:
    has_episode = bool(behaviour.episode_folders(run.folder))
    return has_episode or fleet_folder(run.folder) is not None or has_choices(run.folder)


def _windows(run: RunFacts) -> None:
    """Windows over time under price and leadership, by regime, and behind the optimum."""
    choices = read_choices(run.folder)
    st.markdown(choices.sentence)
    for name, figure in choices.figures().items():
        chart(figure, f"agent.windows.{name}")


def _episode(run: RunFacts) -> Path | None:
    """The stored episode that the reader picks; None, with a word on what to run, where there is none."""
    folders = behaviour.episode_folders(run.folder)
    if not folders:
        st.info(say("agent.no_episode"))
        return None
    name = st.radio(
        say("agent.episode"), list(folders), horizontal=True, format_func=lambda name: say(f"episode.{name}")
    )
    return folders[name]


def _draw_behaviour(run: RunFacts) -> None:
    """Orders by symbol, by hour, and the parts of the reward."""
    folder = _episode(run)
    if folder is None:
        return
    fills = _load_episode(str(folder), (folder / "ledger.parquet").stat().st_mtime).fills
    left, right = st.columns(2)
    with left:
        chart(behaviour.orders_figure(behaviour.order_shares(fills)), "agent.orders")
    with right:
        chart(behaviour.when_figure(behaviour.orders_by_hour(fills)), "agent.when")
    if "option" in fills:
        symbol = st.selectbox(say("agent.option_symbol"), list(fills["symbol"].unique()), key="agent.option_symbol")
        chart(options_figure(fills, symbol), "agent.options")
    parts = behaviour.reward_parts(folder)
    if len(parts.columns):
        chart(behaviour.reward_figure(parts), "agent.rewards")
    else:
        st.caption(say("agent.no_reward"))


def _replay(run: RunFacts) -> None:
    folder = _episode(run)
    if folder is not None:
        _draw_replay(str(folder))


@st.fragment
@contain_errors()  # outside it the fragment has shown its traceback already
def _draw_replay(folder: str) -> None:
    """The episode up to a bar that slides, with entries and exits on the chart."""
    episode = _load_episode(folder, (Path(folder) / "ledger.parquet").stat().st_mtime)
    left, right = st.columns(2)
    with left:
        traded = behaviour.most_traded(episode)
        symbols = st.multiselect(
            say("agent.symbols"),
            traded,
            traded[:FIRST_SYMBOLS],
            key=f"agent.symbol.{folder}",
            placeholder=say("choose.all"),
        )
    with right:
        most = len(episode.ledger)
        bars = st.slider(say("agent.bars"), 1, most, most, key=f"agent.bars.{folder}") if most > 1 else 1
    shown = behaviour.cut_episode(episode, symbols, bars)
    st.markdown(behaviour.cut_episode(episode, [], bars).verdict())
    chart(shown.figure(), "agent.episode")
    table(shown.trades(), "agent.trades", file_name="trades.csv", formats=MONEY)


def _draw_attributions(run: RunFacts) -> None:
    """Attributions and the rest of what the networks say, on demand; those of a fleet are in its report."""
    folder = str(run.folder)
    if fleet_folder(run.folder) is not None:
        st.info(say("agent.in_report"))
    elif st.button(say("agent.explain"), key="agent.explain") or st.session_state.get("agent.explained") == folder:
        st.session_state["agent.explained"] = folder
        for place, finding in enumerate(_explain_run(folder)):
            st.subheader(finding.title)
            st.markdown(finding.text)
            chart(finding.figure, f"agent.finding.{place}")
    else:
        st.caption(say("agent.explain_hint"))


def _fleet(run: RunFacts) -> None:
    """Who allocates best where there is a master, and the agents where there is a fleet."""
    master, fleet = stage_run(run.folder, "master"), fleet_folder(run.folder)
    if (master / ALLOCATIONS).is_file():
        st.markdown(allocations_section(master).text)
        table(read_allocations(master).reset_index(), "agent.allocations", file_name=ALLOCATIONS, formats=SHARES)
    elif fleet is None:
        st.info(say("fleet.empty"))
    if fleet is not None:
        _agents(fleet)


def _agents(folder: Path) -> None:
    """A tile for each agent, how they came to it, what they order, and the strugglers with their reasons."""
    fleet = read_agents(folder)
    st.markdown(fleet_sentence(fleet))
    left, right = st.columns([2, 1])
    figures = figures_of(fleet)
    by = left.selectbox(say("fleet.by"), figures, figures.index("sharpe"), key="agent.by")
    ordered = sorted_fleet(fleet, by, right.toggle(say("fleet.worst"), key="agent.worst"))
    chart(tiles_figure(ordered, by), "agent.tiles")
    chart(multiples_figure(validation_curves(folder), ordered), "agent.learned")
    chart(action_figure(ordered), "agent.ordered")
    table(ordered, "agent.fleet", file_name=AGENTS)


def _front(run: RunFacts) -> None:
    """What weights of the objectives come to, and a slider that chooses those to be served."""
    folder = fleet_folder(run.folder)
    if folder is None or not (folder / FRONT).is_file():
        st.info(say("front.empty"))
        return
    front = read_front(folder)
    most = len(front["points"]) - 1
    place = st.slider(say("front.point"), 0, most, front["chosen"], key=f"front.{folder}") if most else 0
    chart(front_figure(front, place), "agent.front")
    point = front["points"][place]
    st.markdown(say("front.figures", sharpe=point["sharpe"], drawdown=point["drawdown"], growth=point["growth"]))
    st.markdown(say("front.request"))
    st.code(json.dumps({"preference": point["preference"]}), language="json")
    if st.button(say("front.serve"), key=f"front.serve.{folder}", disabled=place == front["chosen"]):
        choose_point(folder, place)
        st.success(say("front.served", place=place))


@st.cache_resource(show_spinner=False, max_entries=8)
def _load_episode(folder: str, changed: float) -> Episode:
    return Episode.load(folder)


@st.cache_resource(max_entries=4)
def _explain_run(folder: str) -> list[BehaviourFinding]:
    return behaviour.explain(Path(folder))
