"""From discrete to continuous orders: the encoder and the hidden layers of a trained run go on, with a new last layer.

The new run's `migration.json` says what it came from and what was checked: that the encoder was taken as it is, that
orders stay within [-1, 1], and that the score after a short fine-tuning is at most a tenth worse.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from rich.console import Console

from pacesetter.build import Plan, build_learner, build_panel, build_parts, stored_plan
from pacesetter.build.sections import Train
from pacesetter.build.trading import Trading
from pacesetter.envs.batch.batch import Batch, batch_of
from pacesetter.envs.vector import Environments
from pacesetter.errors import ConfigError
from pacesetter.evaluation.statistics.gates import Gate
from pacesetter.jobs.run.collapse import gate_table
from pacesetter.jobs.run.train import train
from pacesetter.learning.experience.conditioned import symbol_market
from pacesetter.learning.learner import Learner
from pacesetter.learning.sb3.algorithms import AlgorithmAgent
from pacesetter.learning.state import tensors_hash
from pacesetter.registry import configure
from pacesetter.runs import Run

__all__ = ["Migration", "continuous_config", "migrate_run"]

BACKUP = "before-migration"
SHARE = 0.1  # of the steps of the run, for which the new head is tuned
MOST_WORSE = 0.1  # of the score


@dataclass(frozen=True)
class Migration:
    """What came of a migration.

    origin   run that was migrated         folder  run with continuous orders
    before, after   validation scores      gates   checks
    """

    origin: str
    folder: str
    date: str
    before: float
    after: float
    gates: tuple[Gate, ...]
    space: str = "continuous, [-1, 1]"
    dimension: int = 1

    @property
    def passed(self) -> bool:
        return all(gate.passed for gate in self.gates)


def migrate_run(folder: str | Path, overrides: Sequence[str] = (), console: Console | None = None) -> Migration:
    """Back the checkpoint up, train the continuous agent for a little, check it, and leave `migration.json`."""
    console, run = console or Console(), Run.open(folder)
    config = continuous_config(stored_plan(folder), run.folder, overrides)
    # Before the backup and the training: a run whose encoder does not fit is refused at once.
    equal = _share_kept(config)
    _back_up(run.folder)
    result = train(config, console=console)
    before, after = float(run.manifest["score"]), result.score
    # A share of the size: a tenth off a negative score is further below 0.
    least = before - MOST_WORSE * abs(before)
    gates = (
        Gate("encoder as it was, share of tensors", equal, ">=", 1.0),
        Gate("largest order", _largest_order(config, result.run.folder), "<=", 1.0),
        Gate("validation score after fine-tuning", after, ">=", least),
    )
    date = datetime.now(UTC).isoformat(timespec="seconds")
    migration = Migration(str(run.folder), str(result.run.folder), date, before, after, gates)
    facts = asdict(migration) | {"gates": {gate.name: asdict(gate) | {"passed": gate.passed} for gate in gates}}
    result.run.write_json("migration.json", facts | {"passed": migration.passed})
    console.print(gate_table({"migrated": gates}))
    console.print(f"{run.folder} → {result.run.folder}", soft_wrap=True, highlight=False)
    return migration


def continuous_config(config: Plan, folder: Path, overrides: Sequence[str] = ()) -> Plan:
    """The configuration of the continuous agent; refuses a run without discrete orders, and options beside train's."""
    task, agent = config.task, config.agent
    if not isinstance(task, Trading) or task.action != "discrete" or task.problem not in ("trading", "fleet"):
        raise ConfigError(f"{folder} has no discrete orders of single symbols; migrate a run of task.action=discrete")
    if agent.algorithm not in ("ppo", "maskable_ppo"):
        raise ConfigError(f"agent={agent.algorithm} cannot go on with continuous orders; migrate a PPO run")
    # The limit counts equal discrete orders; continuous ones are hardly ever equal.
    task = replace(task, action="continuous", repetition_limit=None)
    agent = agent.with_options(algorithm="ppo")
    steps = max(int(SHARE * config.train.steps), 1)
    tuned = replace(config.train, steps=steps, init_from=str(folder), validate_every=max(steps // 2, 1))
    return replace(
        config, name=f"{config.name}_continuous", task=task, agent=agent, train=_with_overrides(tuned, overrides)
    )


def _with_overrides(train_options: Train, overrides: Sequence[str]) -> Train:
    """The training options with overrides such as train.steps=1000."""
    changed = asdict(train_options)
    for text in overrides:
        key, _, value = text.partition("=")
        name = key.removeprefix("train.")
        if not key.startswith("train.") or name not in changed:
            raise ConfigError(f"{text}: a migration takes options of train alone, e.g. train.steps=2000")
        changed[name] = float(value) if "." in value else int(value) if value.isdigit() else value
    return configure(type(train_options), changed, "train")


def _share_kept(config: Plan) -> float:
    """Share of the encoder's tensors that the new agent has exactly as the old one had them."""
    assert config.train.init_from is not None
    parts = build_parts(config, build_panel(config))
    learner = build_learner(config, parts)
    best = Path(config.train.init_from) / "checkpoints" / "best"
    learner.take_weights(best)
    new = _encoder(learner)
    discrete = replace(config, task=replace(config.task_as(Trading), action="discrete"))
    old_learner = build_learner(discrete, build_parts(discrete, build_panel(discrete)))
    old_learner.take_weights(best)
    old = _encoder(old_learner)
    same = [
        name in old and tensors_hash({name: value}) == tensors_hash({name: old[name]}) for name, value in new.items()
    ]
    return float(np.mean(same))


def _encoder(learner: Learner) -> dict[str, torch.Tensor]:
    """The tensors of a learner's encoder."""
    from pacesetter.learning.fleet.trainer import FleetTrainer
    from pacesetter.learning.sb3.algorithms import first_extractor
    from pacesetter.learning.sb3.learner import SB3Learner

    if isinstance(learner, FleetTrainer):
        return dict(learner.fleet.encoder.state_dict())
    assert isinstance(learner, SB3Learner)
    return dict(first_extractor(learner.algorithm).encoder.state_dict())


def _largest_order(config: Plan, folder: Path) -> float:
    """Size of the largest order that the migrated agent gives on the validation set."""
    from pacesetter.build.fleet import best_fleet
    from pacesetter.evaluation.recovery.trace import play_trace
    from pacesetter.jobs.run.recovery import agent_act, fleet_act

    validation = build_parts(config, build_panel(config)).validation
    batch = batch_of(validation)
    assert batch is not None
    if isinstance(validation, VectorEnv):
        act = agent_act(_load_best_agent(folder, validation, batch), is_deterministic=True)
    else:
        act = fleet_act(best_fleet(folder), symbol_market(validation))
    trace = play_trace(batch, act)
    return float(np.abs(trace.actions[trace.is_played]).max())


def _load_best_agent(folder: Path, validation: Environments, batch: Batch) -> AlgorithmAgent:
    """The best agent of a run, for compact observations."""
    from pacesetter.learning.experience.gather import Tables
    from pacesetter.learning.sb3.algorithms import AlgorithmAgent, load_algorithm

    bank = batch.bank
    tables = Tables(bank.windows, bank.context, bank.places, batch.window_bars, bank.is_whole)
    return AlgorithmAgent(load_algorithm(folder / "checkpoints" / "best", validation, tables=tables))


def _back_up(folder: Path) -> None:
    """A copy of the best checkpoint beside it; one that is there already is left."""
    best, backup = folder / "checkpoints" / "best", folder / "checkpoints" / BACKUP
    if not backup.exists():
        shutil.copytree(best, backup)
