"""`pacesetter lab adapt`: the same starts for all players, a context that is left empty, and what is written.

Runs `methods.meta.pictures`.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from pacesetter.build.fleet import best_fleet
from pacesetter.errors import ConfigError, RunError
from pacesetter.evaluation.stored_run import StoredRun
from pacesetter.methods.meta.adaptation import adapt_run, adding_section, player_curves
from pacesetter.methods.meta.pictures import main_axes
from pacesetter.methods.meta.playing import (
    HOLD,
    ORACLE,
    TREND,
    WITH,
    WITHOUT,
    AdaptationEpisodes,
    play_task,
    play_yardsticks,
    unseen_tasks,
)


def test_players_meet_the_same_bars_and_a_run_is_reported(
    meta_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(shutil.copytree(meta_run, tmp_path / meta_run.name))
    run = StoredRun(folder)
    task = unseen_tasks(run, "mixed", 2, seed=9)[0]
    played = {one.player: one for one in play_task(run, "mixed", task, best_fleet(folder), {}, 2, seed=3)}
    assert set(played) == {WITH, WITHOUT, HOLD, TREND, ORACLE}
    np.testing.assert_array_equal(played[WITH].returns[0], played[WITHOUT].returns[0])  # nothing was seen yet
    assert played[WITH].returns.shape == (20, 6)
    assert played[WITH].contexts.shape == (6, 8)
    assert played[WITH].attention.sum() == pytest.approx(1.0, abs=1e-5)
    page = adapt_run(folder, (), ("persistent", "mixed"), 2, 1, seed=9)
    shown = capsys.readouterr().out
    assert "What the context adds" in shown
    assert "must be completed" in " ".join(shown.split())
    assert "100%" in shown
    assert re.search(r"\.0*[1-9]\d{3}", shown) is None  # three digits that count
    assert re.search(r"\d\.\d{3}", shown.split("What the context adds")[0]) is None
    rows = pd.read_csv(folder / "meta.csv")
    assert list(rows["family"]) == ["persistent"] * 2 + ["mixed"] * 2
    assert (rows["completed"] >= 0.98).all()
    assert page.is_file()


def episodes_of(family: str, player: str, *means: float) -> list[AdaptationEpisodes]:
    """A task of two bars for each mean, in bps a bar."""
    return [AdaptationEpisodes(family, "one", player, np.full((2, 1), 1e-4 * mean), 1.0) for mean in means]


def test_what_the_context_adds_has_the_interval_of_student_over_tasks() -> None:
    played = [*episodes_of("mixed", WITH, 2.0, 1.0), *episodes_of("mixed", HOLD, 0.0, 0.0)]
    ((family, difference, *cells),) = adding_section(played).rows
    assert (family, difference) == ("mixed", "less hold")
    # 1.5 ± 12.706 · 0.5, whose low end is far below both tasks
    assert cells == ["+1.50", "-4.85", "+7.85", "no"]
    clear = [*episodes_of("mixed", WITH, 2.0, 2.1, 1.9), *episodes_of("mixed", HOLD, 0.0, 0.0, 0.0)]
    assert adding_section(clear).rows[0][-1] == "yes"


def test_a_curve_of_some_families_only_names_them() -> None:
    played = [*episodes_of("mixed", WITH, 1.0), *episodes_of("mixed", ORACLE, 2.0), *episodes_of("blends", WITH, 3.0)]
    assert {name: len(tasks) for name, tasks in player_curves(played).items()} == {WITH: 2, "oracle (mixed only)": 1}


@pytest.mark.parametrize("action", ["target", "discrete", "continuous"])
def test_the_oracle_holds_in_a_bull_and_has_cash_in_a_bear_whatever_the_orders_are(
    meta_words: list[str], tmp_path: Path, action: str
) -> None:
    from pacesetter.jobs.hydra.resolve import resolve
    from pacesetter.jobs.run.train import train

    config = resolve([*meta_words, f"task.action={action}", "agent.context=sums", f"runs={tmp_path}"])
    run = StoredRun(train(config, console=Console(quiet=True)).run.folder)
    for task in unseen_tasks(run, "persistent", 2, seed=9):
        played = {one.player: one.returns for one in play_yardsticks(run, "persistent", task, 4, 2, seed=3)}
        assert np.abs(played[HOLD]).sum() > 0
        if task.label == "bull":
            np.testing.assert_array_equal(played[ORACLE], played[HOLD])
        else:
            assert not played[ORACLE].any()
        assert (played[TREND] != played[HOLD]).any()


def test_an_opponent_may_see_more_and_must_trade_by_the_same_rules(
    meta_words: list[str], meta_run: Path, tmp_path: Path
) -> None:
    from pacesetter.jobs.hydra.resolve import resolve
    from pacesetter.jobs.run.train import train

    def plain(*more: str) -> Path:
        config = resolve([*meta_words, "agent.context=off", *more, f"runs={tmp_path}"])
        return Path(train(config, console=Console(quiet=True)).run.folder)

    folder = Path(shutil.copytree(meta_run, tmp_path / "own"))
    wide = plain("task.window_bars=6", "name=wide")
    adapt_run(folder, (wide,), ("persistent", "blends"), 2, 1, seed=9)
    rows = pd.read_csv(folder / "meta.csv")
    assert rows[wide.name].notna().all()
    assert list(rows["oracle"].notna()) == [True, True, False, False]  # blends have no drift that is known
    with pytest.raises(ConfigError, match=r"another task\.market"):
        adapt_run(folder, (plain("task.market.costs.commission_bps=3", "name=dear"),), ("mixed",), 2, 1, seed=9)
    with pytest.raises(ConfigError, match=r"has no context; .*=gru, attention, pearl or sums"):
        adapt_run(wide, (), ("mixed",), 2, 1, seed=9)
    with pytest.raises(ConfigError, match="other bars"):
        adapt_run(folder, (plain("data.bars=301", "name=longer"),), ("mixed",), 2, 1, seed=9)


def test_a_run_without_a_context_is_refused(trained_run: Path) -> None:
    with pytest.raises(RunError, match="has no fleet"):
        adapt_run(trained_run, (), ("mixed",), 2, 1, seed=9)


def test_a_run_that_was_stopped_before_its_first_validation_says_so(meta_run: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(meta_run, tmp_path / meta_run.name))
    shutil.rmtree(folder / "checkpoints" / "best")
    with pytest.raises(RunError, match=r"before its first validation; finish it with pacesetter train --resume"):
        adapt_run(folder, (), ("mixed",), 2, 1, seed=9)


def test_an_unknown_family_is_refused(meta_run: Path) -> None:
    with pytest.raises(ConfigError, match=r"agent\.family=none is unknown"):
        unseen_tasks(StoredRun(meta_run), "none", 2, 0)


def test_main_axes_are_those_of_the_largest_spread() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 3)) * [5.0, 0.1, 1.0]
    points = main_axes(rows)
    np.testing.assert_allclose(np.abs(np.corrcoef(points[:, 0], rows[:, 0])[0, 1]), 1.0, atol=0.01)
