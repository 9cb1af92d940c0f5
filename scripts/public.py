"""Writes the public names and configuration keys that `tests/house/test_public.py` holds the package to.

    python scripts/public.py

Run it when a change of either is meant; the difference in `tests/house/public.txt` is then part of the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pacesetter
from pacesetter.build.tasks.task import TASKS
from pacesetter.data import SOURCES
from pacesetter.jobs.hydra.groups import (
    agent_defaults,
    build_tree,
    choose_groups,
    flatten_keys,
    source_defaults,
    task_defaults,
)
from pacesetter.learning.methods import METHODS

FILE = Path(__file__).resolve().parents[1] / "tests" / "house" / "public.txt"


def public_lines() -> list[str]:
    """A line for each public name of the package, and for each key of every source, task, method and section."""
    whole = build_tree(choose_groups({}, []))
    plain = {key: value for key, value in whole.items() if key not in ("data", "task", "agent")}
    lines = [f"pacesetter.{name}" for name in pacesetter.__all__]
    lines += [key for key, _ in flatten_keys(plain)]
    for name in _own(SOURCES):
        lines += [f"data={name} data.{key}" for key, _ in flatten_keys(source_defaults(name))]
    for name in _own(TASKS):
        lines += [f"task={name} task.{key}" for key, _ in flatten_keys(task_defaults(name))]
    for name in _own(METHODS):
        for task in (support.tasks[0] for support in METHODS[name].supports):
            keys = [key for key, _ in flatten_keys(agent_defaults(name, task))]
            lines += [f"task={task} agent={name} agent.{key}" for key in keys]
    return sorted(lines)


def _own(names: object) -> Iterator[str]:
    """Names of the package itself: plugins that happen to be installed are no part of it."""
    from importlib.metadata import entry_points

    plugins = {
        point.name for kind in ("source", "task", "method") for point in entry_points(group=f"pacesetter.{kind}")
    }
    return (name for name in names if name not in plugins)  # type: ignore[attr-defined]


if __name__ == "__main__":
    FILE.write_text("\n".join(public_lines()) + "\n", encoding="utf-8")
