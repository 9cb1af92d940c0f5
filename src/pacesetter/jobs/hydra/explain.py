"""`pacesetter config --explain KEY`: a line for each key, its value and meaning, as the dataclasses say."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from pacesetter.build import Plan
from pacesetter.build.sections import Evaluation, Programme, Track, Train
from pacesetter.build.study import MainJob
from pacesetter.build.tasks.task import TASKS
from pacesetter.data import Loading
from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.late import load
from pacesetter.leadlag.estimators.estimator import ESTIMATORS
from pacesetter.leadlag.study import Study
from pacesetter.learning.methods import TargetOptions, find_support
from pacesetter.market.parameters import SHORT_KEYS

__all__ = ["Explained", "explain_keys"]

# Words of the field that many sections share; what a field says of itself comes first.
COMMON = {
    "action": "what an order is: discrete, continuous, hybrid or target (a weight of equity)",
    "algorithm": "the learning method, chosen by agent=NAME",
    "autoencoder": "whether an autoencoder scores how unusual each window's matrix is",
    "backend": "table (prefix sums), gemm, torch; auto: table if it fits into memory",
    "batch_size": "samples of one gradient step",
    "bins": "of the histogram behind mutual information and transfer entropy",
    "buffer_size": "steps that the replay buffer holds",
    "burn_in_bars": "first bars of a stretch, whose gains do not count",
    "chance": "whether the share that chance alone gives is taken off",
    "clip_range": "most that the probability ratio of an action may move, PPO's epsilon",
    "deltas": "changes in bars that a delta action chooses from",
    "depth": "of the path signature",
    "device": "where torch computes: cpu, cuda",
    "encoder_learning_rate": "step size of the shared encoder",
    "encoder_options": "of the matrix encoder",
    "ent_coef": "weight of the policy's entropy",
    "envs": "environments side by side",
    "episode_bars": "bars of an episode; null is all of them",
    "episodes": "least number of episodes behind a measurement",
    "gae_lambda": "lambda of the generalised advantage estimation",
    "gamma": "discount of the next reward",
    "gradient_steps": "gradient steps after each collection",
    "grid": "windows in bars that a discrete action chooses from",
    "heads": "widths of the hidden layers of actor and critic",
    "inner": "estimator whose scores are combined",
    "is_scaled": "returns among the lead–lag features in deviations of the symbol's own",
    "leader_lags": "latest moves of each leader that are shown",
    "learning_rate": "step size of the optimiser",
    "learning_starts": "steps before the first gradient step",
    "least_turnover": "price times volume a bar, below which a symbol is thinly traded",
    "log": "whether the path is of log prices",
    "log_every": "steps between lines of metrics",
    "max_grad_norm": "gradients are scaled down to this norm",
    "max_lag": "largest delay in bars that is looked at",
    "memory_budget_mb": "bound on prefix tables and rolling results",
    "min_observations": "least observed bars of a window; null: 10 or half of it",
    "most_bounce": "share of variance that bounces back, above which a symbol is thinly traded",
    "most_stale": "share of bars without a move, above which a symbol is thinly traded",
    "n_epochs": "passes over each rollout",
    "n_steps": "steps of each environment between updates",
    "names": "which of them; none is all",
    "network": "the encoder's architecture; `pacesetter lab networks` lists them",
    "network_options": "fields of the architecture that differ, e.g. {width: 64}",
    "patience": "validations in a row that must fail",
    "problem": "the task, chosen by task=NAME",
    "progress": "whether progress lines are printed",
    "run": "folder of a trained run, whose relations are read",
    "score": "mean reward a step that ends a stage, with advance=score",
    "source": "where bars come from, chosen by data=NAME",
    "standardise_bars": "own last values that each lead–lag feature is standardised by; null: as it is",
    "starts": "where episodes begin: random, stratified by regime, or fixed",
    "steps": "environment steps, all environments together",
    "symbols": "which of them; none is all",
    "synthetic_plays": "episodes that each synthetic market is played",
    "target_kl": "an update stops beyond this divergence; null never",
    "tau": "share by which target networks follow",
    "tensorboard": "auto: where TensorBoard is installed; on; off",
    "train_freq": "steps between collections and updates",
    "variant": "of the estimator, see the guide",
    "vf_coef": "weight of the value loss",
    "window_bars": "latest bars that an agent sees",
}


class Explained(NamedTuple):
    """One key with its value and what it means; the meaning is empty where a name says all."""

    key: str
    value: Any
    about: str


def explain_keys(config: Plan, key: str) -> list[Explained]:
    """Every key below `key`, e.g. `task.market`, or the key itself, also a short one; refuses an unknown one."""
    group, _, name = key.removeprefix("task.").partition(".")
    if group == "market":
        key = f"task.market.limits.{SHORT_KEYS[name]}" if name in SHORT_KEYS else f"task.{key.removeprefix('task.')}"
    values: object = config.to_dict()
    kinds = _kinds(config)
    path: list[str] = []
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            known = list(values) if isinstance(values, Mapping) else []
            keys = [".".join([*path, name]) for name in known]
            raise ConfigError(f"there is no key '{key}'{did_you_mean('.'.join([*path, part]), keys)}")
        parents, values, path = kinds, values[part], [*path, part]
        kinds = _below(parents, part) if len(path) > 1 else _kinds(config, part)
    if not isinstance(values, Mapping):
        return [Explained(key, values, _about(_texts(parents), path[-1]))]
    return list(_rows(key, values, kinds))


def _rows(prefix: str, values: Mapping[str, object], kinds: Sequence[type[object]]) -> Iterator[Explained]:
    texts = _texts(kinds)
    for name, value in values.items():
        below = _below(kinds, name)
        if isinstance(value, Mapping) and below:
            yield from _rows(f"{prefix}.{name}", value, below)
        else:
            yield Explained(f"{prefix}.{name}", value, _about(texts, name))


def _about(texts: Mapping[str, str], name: str) -> str:
    return texts.get(name) or COMMON.get(name, "")


def _kinds(config: Plan, group: str | None = None) -> list[type[object]]:
    """The dataclasses whose fields are the keys of a group, or of the whole configuration."""
    problem, method = str(config.task.problem), config.agent.algorithm
    groups: dict[str | None, list[type[Any]]] = {
        None: [Plan],
        "data": [Loading, type(config.data.origin)],
        "lag": [Study, ESTIMATORS[config.lag.method]],
        "task": [TASKS[problem].config],
        "agent": [load(find_support(method, TASKS[problem].learned_as).options), TargetOptions],
        "train": [Train],
        "track": [Track],
        "job": [MainJob],
        "evaluation": [Evaluation],
        "programme": [Programme],
    }
    return groups[group] if group in groups else _below([Plan], str(group))


def _below(kinds: Sequence[type[object]], name: str) -> list[type[object]]:
    """The dataclass that a field holds, among the dataclasses that may have it."""
    for kind in kinds:
        hint = typing.get_type_hints(kind).get(name)
        for option in (hint, *typing.get_args(hint)):
            if isinstance(option, type) and dataclasses.is_dataclass(option):
                return [option]
    return []


def _texts(kinds: Sequence[type[object]]) -> dict[str, str]:
    """Field → what it says of itself, `Annotated[type, text]`; one that a child declares again has the child's."""
    hints = {name: hint for kind in kinds for name, hint in typing.get_type_hints(kind, include_extras=True).items()}
    said = {name: hint.__metadata__ for name, hint in hints.items() if typing.get_origin(hint) is Annotated}
    return {name: text for name, (text, *_) in said.items() if isinstance(text, str)}
