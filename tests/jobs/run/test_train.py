"""A run from config to agent: what it leaves, that it repeats bit-exactly, transfer, a sentence for every mistake."""

from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from pacesetter.build import build_panel, build_parts, build_table
from pacesetter.errors import ConfigError, DataError, PacesetterError, RunError
from pacesetter.evaluation.backtest.episode import Episode
from pacesetter.evaluation.statistics.trials import Trials
from pacesetter.jobs.hydra.resolve import resolve
from pacesetter.jobs.launch.seeds import train_seeds
from pacesetter.jobs.run import callbacks
from pacesetter.jobs.run.callbacks import FailSafeGuard
from pacesetter.jobs.run.collapse import play_episodes
from pacesetter.jobs.run.train import train
from pacesetter.learning.state import read_header, read_state
from pacesetter.locks import hold
from pacesetter.methods.supervised.direction import Direction
from pacesetter.methods.supervised.forecasts import fit_supervised
from pacesetter.runs import Run


@pytest.mark.parametrize("agent", ["ppo", "a2c", "sac", "td3", "maskable_ppo", "recurrent_ppo"])
def test_every_agent_trains_and_repeats_to_the_bit(small, console, agent):
    first, second = (train(small(agent, "train.steps=64"), console=console) for _ in range(2))
    assert first.steps >= 64
    assert first.weights_hash == second.weights_hash
    assert first.score == second.score


def test_a_run_leaves_config_metrics_checkpoints_and_hashes(small, console):
    result = train(small(), console=console)
    manifest = result.run.manifest
    assert manifest["finished"] is True
    assert manifest["weights_hash"] == result.weights_hash
    assert manifest["identity"]["threads"] == 1
    assert {path.name for path in (result.run.folder / "checkpoints").iterdir()} == {"best", "last"}
    assert read_header(result.run.folder / "checkpoints" / "best")["score"] == result.score
    lines = [json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines()]
    live = next(line for line in lines if "entropy" in line)
    assert {"reward", "action_mix", "trade_rate", "voluntary_rate", "sharpe", "seconds", "resources"} <= set(live)
    assert sum(live["action_mix"]) == pytest.approx(1, abs=1e-3)
    assert set(live["seconds"]) == {"environment", "policy", "update"}
    scores = [line["validation"]["score"] for line in lines if "validation" in line]
    assert max(scores) == result.score
    assert len(scores) == 2
    assert {"config.yaml", "metrics.jsonl", "log.jsonl"} <= set(manifest["artefacts"])
    assert "Collapse gates" in console.file.getvalue()


def test_a_run_that_another_process_trains_is_not_resumed(small, console):
    run = train(small("ppo", "train.steps=64"), console=console).run
    assert ".lock" not in run.manifest["artefacts"]
    run.write_json("manifest.json", run.manifest | {"finished": False})
    with hold(run.folder), pytest.raises(RunError, match="is in use by process"):
        train(resume=run.folder, console=console)
    assert train(resume=run.folder, console=console).steps >= 64


def test_the_best_validation_episode_can_be_inspected(small, trained_run):
    episode = Episode.load(trained_run)
    assert len(episode.symbols) == 1
    assert {"ledger.parquet", "fills.parquet"} <= set(Run.open(trained_run).manifest["artefacts"])
    panel = build_panel(small())
    start = int(build_parts(small(), panel).validation.reset(seed=0)[1]["bar"][0])
    assert episode.ledger.index[0] == panel.index[start + 1]


def test_folds_expand_and_each_is_judged_on_later_bars(small):
    panel = build_panel(small("ppo", "data.bars=1200"))
    ends = []
    for fold in range(3):
        parts = build_parts(small("ppo", "data.bars=1200", "train.folds=3", f"train.fold={fold}"), panel)
        ends.append(len(parts.validation.batch.bank.times[0]))
    assert ends == sorted(set(ends))
    whole = build_parts(small("ppo", "data.bars=1200"), panel).validation.batch.bank.times[0]
    assert ends[-1] == len(whole)
    with pytest.raises(ConfigError, match=r"train\.fold=3 must be below train\.folds=3"):
        small("ppo", "train.folds=3", "train.fold=3")


def test_seeds_may_be_asked_for_by_their_short_name(small, command, tmp_path):
    shown = command("train", *small.overrides, "train.steps=64", "seeds=2")
    assert shown.returncode == 0, shown.stderr
    assert "Best validation score by seed" in shown.stdout


WINDOWS = "task.windows.longest=30 task.windows.seen=[5,10,30] task.windows.grid=[10,20,30] task.episodes.bars=20"


@pytest.mark.parametrize(("task", "more"), [("lookback", WINDOWS.split()), ("portfolio", ["task.curriculum=adaptive"])])
def test_the_other_problems_train_and_resume_too(small, console, task, more):
    kept = [text for text in small.overrides if not text.startswith("task.") or task == "portfolio"]
    config = resolve([f"task={task}", *kept, *more])
    whole = train(config, console=console)
    cut = train(config, console=console, report=lambda step, score: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert cut.stopped == "signal"
    assert cut.steps < whole.steps
    assert train(resume=cut.run.folder, console=console).weights_hash == whole.weights_hash


@pytest.mark.parametrize("which", [0, 1, -2, -1])  # of the plays: two in each validation, of which one is at the end
def test_a_signal_ends_a_validation_which_the_resume_begins_with(small, console, monkeypatch, which):
    config = small("ppo", "train.steps=96", "train.validate_every=32")
    whole, began, ended = train(config, console=console), [], []
    plays = 2 * len(read_scores(whole))

    def play(*given, **more):
        began.append(True)
        if len(began) == 1 + which % plays:
            os.kill(os.getpid(), signal.SIGTERM)
        played = play_episodes(*given, **more)
        ended.append(True)
        return played

    monkeypatch.setattr(callbacks, "play_episodes", play)
    cut = train(config, console=console)
    assert cut.stopped == "signal"
    assert (len(began), len(ended)) == (1 + which % plays, which % plays)
    resumed = train(resume=cut.run.folder, console=console)
    assert (resumed.weights_hash, resumed.score) == (whole.weights_hash, whole.score)
    assert plays > 2
    assert read_scores(resumed) == read_scores(whole)


def read_scores(result):
    lines = (json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines())
    return [(line["step"], line["validation"]["score"]) for line in lines if "validation" in line]


def test_training_never_sees_the_validation_part_nor_that_the_test_part(small):
    config = small()
    panel = build_panel(config)
    parts = build_parts(config, panel)
    ends = [int(env.batch.bank.lasts.max()) for env in (parts.train, parts.validation)]
    assert ends == [239, 319]
    parts.validation.reset(seed=0)
    assert (parts.validation.batch.cursor[:, 1] == 240).all()


def test_best_weights_of_another_run_are_a_start_and_frozen_parts_stay(small, console, trained_run):
    start = f"train.init_from={trained_run}"
    pupil = train(small("ppo", start, "train.freeze=[encoder]", "train.steps=64", "seed=7"), console=console)
    best = read_state(trained_run / "checkpoints" / "best")["modules"]["policy"]
    last = read_state(pupil.run.folder / "checkpoints" / "last")["modules"]["policy"]
    assert all((best[name] == last[name]).all() for name in best if "encoder" in name)
    assert any((best[name] != last[name]).any() for name in best)


def test_an_index_that_the_data_lack_is_refused_before_a_folder_is_made(small, console):
    config = small("ppo", "+evaluation.index=S00")
    with pytest.raises(ConfigError, match=r"evaluation\.index=S00 is not a symbol of the data; did you mean '?S0"):
        train(config, console=console)
    assert not list(small.runs.glob("*/manifest.json"))


def test_symbols_of_a_task_that_the_data_lack_are_all_named_before_a_folder_is_made(small, console):
    config = small("ppo", "task.symbols=[S0,QQQ,XOM]")
    with pytest.raises(ConfigError, match=r"the data have no QQQ, XOM.*; name others by task\.symbols"):
        train(config, console=console)
    assert not list(small.runs.glob("*/manifest.json"))


@pytest.mark.parametrize("device", ["gpu", "cuda:99"])
def test_a_device_that_is_not_there_is_refused_before_a_folder_is_made(small, console, device):
    with pytest.raises(ConfigError, match=rf"train\.device={device} cannot be used here \(.+\); use cpu"):
        train(small("ppo", f"train.device={device}"), console=console)
    assert not list(small.runs.glob("*/manifest.json"))


@pytest.mark.parametrize("kind", ["run", "classifier"])
def test_a_teacher_that_saw_bars_of_the_test_part_is_refused(small, console, tmp_path, kind):
    longer = small("ppo", "train.shares=[0.7,0.2]", "train.steps=64", "features.names=[return_1]")
    if kind == "run":
        teacher = train(longer, console=console).run.folder
    else:
        panel, direction = build_panel(longer), Direction(network="mlp", width=16, window_bars=6, epochs=1)
        fitted = fit_supervised(panel, build_table(longer, panel), direction, train_bars=360, folds=1)
        teacher = fitted.save(tmp_path / "sl")
    with pytest.raises(
        DataError, match=r"train.init_from: the teacher in .* was trained on bars until .* test set starts after"
    ):
        train(small("ppo", f"train.init_from={teacher}"), console=console)
    assert len(list(small.runs.glob("*/manifest.json"))) == (kind == "run")


@pytest.mark.parametrize(("agent", "whole"), [("ppo", 128), ("sac", 100)])
def test_steps_that_end_within_a_round_are_said_to_become_whole_ones(small, console, agent, whole):
    result = train(small(agent, "train.steps=98", "train.validate_every=0"), console=console)
    assert result.steps == whole
    assert f"train.steps=98 becomes {whole}: the agent trains in whole rollouts of" in console.file.getvalue()
    train(small(agent, f"train.steps={whole}", "train.validate_every=0"), console=console)
    assert console.file.getvalue().count("becomes") == 1


@pytest.mark.parametrize(("steps", "where"), [(1, "the start"), (3, "its last checkpoint")])
def test_who_stops_a_run_is_told_how_to_go_on(small, console, monkeypatch, steps, where):
    rounds = iter(range(1, steps + 1))

    def between(self):
        if next(rounds) == steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(FailSafeGuard, "between_rounds", between)
    with pytest.raises(KeyboardInterrupt):
        train(small("ppo", "train.checkpoint_every=1"), console=console)
    (folder,) = (path.parent for path in small.runs.glob("*/manifest.json"))
    assert f"stopped; resume from {where} with: pacesetter train --resume {folder}" in console.file.getvalue()
    assert Run(folder).manifest["stopped"] == "interrupted"
    monkeypatch.undo()
    result = train(resume=folder, console=console)
    assert (result.stopped, result.run.manifest["stopped"]) == ("steps", "steps")


def test_several_seeds_make_a_table_with_mean_and_interval(small, console):
    overrides = [*small.overrides, "train.steps=64", "train.seeds=2"]
    result = train_seeds(overrides, resolve(overrides), console)
    assert list(result.runs["seed"]) == [0, 1]
    assert result.runs["weights_hash"].nunique() == 2
    assert "mean" in console.file.getvalue()
    assert "±" in console.file.getvalue()


@pytest.mark.parametrize(
    ("agent", "overrides", "words"),
    [
        ("sac", ["task.action=discrete"], "agent=sac does not support task.action=discrete"),
        ("maskable_ppo", ["task.action=continuous"], "agent=maskable_ppo does not support task.action=continuous"),
        ("ppo", ["agent.network=mpl"], "did you mean 'mlp'"),
        ("ppo", ["agent.heads=wide"], "agent.heads='wide' must be of type int"),
        ("ppo", ["agent.heads=[0]"], r"agent\.heads=\[0\]: a hidden layer has a width of 1 or more"),
        ("ppo", ["agent.network_options=5"], "agent.network_options=5 must be a mapping"),
        ("ppo", ["agent.gamma=high"], r"agent\.gamma='high' must be a number"),
        ("ppo", ["seed=1,2"], "seed=1,2 has several values, which `pacesetter train --launch sweep` and `tune` take"),
        ("ppo", ["train.threads=-1"], "train.threads=-1 must be 0 or more"),
        ("ppo", ["+agent.learning_rat=1"], "did you mean 'learning_rate'"),
        ("ppo", ["train.steps=0"], "train.steps=0 must be 1 or more"),
        ("ppo", ["train.patience=2", "train.validate_every=0"], "train.patience counts validations"),
        ("ppo", ["train.shares=[0.9,0.2]"], "both together below 1"),
        ("ppo", ["train.init_from=nowhere"], "nowhere is not a run folder"),
        ("ppo", ["train.schedules={learning_rat:{kind:linear,points:[[0,1]]}}"], "did you mean 'learning_rate'"),
        ("ppo", ["task.window_bars=300"], "no bar can start an episode"),
    ],
)
def test_what_cannot_be_trained_gets_one_sentence(small, console, tmp_path, agent, overrides, words):
    with pytest.raises(PacesetterError, match=words) as refused:
        train(small(agent, *overrides), console=console)
    assert "\n" not in str(refused.value)


def test_a_missing_library_is_named_with_its_extra(small, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'pacesetter\[rl\]'"):
        train(small())


def test_a_folder_that_is_no_training_run_is_refused(tmp_path, small):
    with pytest.raises(RunError, match="is not a run folder"):
        train(resume=tmp_path / "nothing")
    other = Run.create(tmp_path, "job", small().to_dict())
    other.finish()
    with pytest.raises(RunError, match="no agent to resume"):
        train(resume=other.folder)


def test_every_run_is_counted_among_the_trials_with_its_validation_result(small, console):
    result = train(small(), console=console)
    train(small("ppo", "train.validate_every=0"), console=console)
    (first, second) = Trials(small.runs).of(result.run.manifest["identity"]["data"], "trading")
    lines = [json.loads(line) for line in (result.run.folder / "metrics.jsonl").read_text().splitlines()]
    best = max((line["validation"] for line in lines if "validation" in line), key=lambda found: found["score"])
    assert first.run == result.run.folder.name
    assert first.sharpe * build_panel(small()).bars_per_year ** 0.5 == pytest.approx(best["deterministic"]["sharpe"])
    assert second.sharpe is None


def test_an_encoder_may_begin_with_what_a_classifier_learned(small, console, tmp_path):
    short = ("train.steps=64", "features.names=[return_1]")
    config = small("ppo", *short)
    panel = build_panel(config)
    direction = Direction(network="mlp", width=16, window_bars=6, epochs=1)
    stored = fit_supervised(panel, build_table(config, panel), direction, train_bars=240, folds=1).save(tmp_path / "sl")
    pupil = train(small("ppo", *short, f"train.init_from={stored}", "train.freeze=[encoder]"), console=console)
    last = read_state(pupil.run.folder / "checkpoints" / "last")["modules"]["policy"]
    taught = read_state(stored)["weights"]["encoder.embed.weight"]
    found = [tensor for name, tensor in last.items() if name.endswith("encoder.embed.weight")]
    assert found
    assert all((tensor == taught).all() for tensor in found)
