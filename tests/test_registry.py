"""The registry and typed options: each id once, plugins by entry point, typos and wrong types refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import Any, Literal

import numpy as np
import pytest

from pacesetter import registry
from pacesetter.errors import ConfigError
from pacesetter.registry import Registry, configure


@dataclass(frozen=True)
class Inner:
    depth: int = 1


@dataclass(frozen=True)
class Options:
    path: str
    count: int = 3
    rate: float = 0.5
    flag: bool = False
    kind: Literal["a", "bee"] = "a"
    names: tuple[str, ...] = ()
    pair: tuple[int, float] = (1, 2.0)
    maybe: int | None = None
    either: int | tuple[int, ...] = 0
    table: dict[str, float] = field(default_factory=dict)
    inner: Inner = Inner()
    anything: Any = None


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"count": 4.0}, "count", 4),
        ({"count": np.int64(4)}, "count", 4),
        ({"rate": 2}, "rate", 2.0),
        ({"rate": np.float32(0.5)}, "rate", 0.5),
        ({"names": "x"}, "names", ("x",)),
        ({"names": ["x", "y"]}, "names", ("x", "y")),
        ({"pair": [1, 2]}, "pair", (1, 2.0)),
        ({"maybe": None}, "maybe", None),
        ({"either": [1, 2]}, "either", (1, 2)),
        ({"table": {"a": 1}}, "table", {"a": 1.0}),
        ({"inner": {"depth": 2}}, "inner", Inner(2)),
        ({"inner": Inner(5)}, "inner", Inner(5)),
        ({"anything": [1]}, "anything", [1]),
    ],
)
def test_values_take_their_declared_type(given: dict[str, Any], name: str, value: Any) -> None:
    found = getattr(configure(Options, {"path": "x"} | given, "data"), name)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"coutn": 1}, "unknown option 'data.coutn'; did you mean 'count'?"),
        ({"count": 1.5}, "data.count=1.5 must be of type int, not float"),
        ({"count": True}, "data.count=True must be of type int, not bool"),
        ({"count": "3"}, "data.count='3' must be of type int, not str"),
        ({"count": float("inf")}, "data.count=inf must be of type int, not float"),
        ({"count": None}, "data.count=None must be of type int, not NoneType"),
        ({"rate": True}, "data.rate=True must be of type float, not bool"),
        ({"flag": 1}, "data.flag=1 must be of type bool, not int"),
        ({"kind": "be"}, "data.kind='be' is unknown; did you mean 'bee'?"),
        ({"names": [1]}, "data.names=1 must be of type str, not int"),
        ({"names": 4}, "data.names=4 must be of type str, not int; give a list, e.g. data.names=[a,b]"),
        ({"pair": [1]}, "data.pair takes 2 values, not 1"),
        ({"maybe": "x"}, "data.maybe='x' must be of type int, not str"),
        ({"table": [1]}, "data.table=[1] must be a mapping, e.g. {key: value}"),
        ({"table": {"a": "x"}}, "data.table.a='x' must be of type float, not str"),
        ({"inner": 5}, "data.inner=5 must be a mapping, e.g. {key: value}"),
        ({"inner": {"dept": 5}}, "unknown option 'data.inner.dept'; did you mean 'depth'?"),
    ],
)
def test_wrong_options_are_refused_by_name(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        configure(Options, {"path": "x"} | given, "data")
    assert str(caught.value) == said


def test_what_has_no_default_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"data needs 'path': give data.path=…"):
        configure(Options, {}, "data")


def test_each_name_is_given_once_and_order_is_kept() -> None:
    table: Registry[Any] = Registry("thing")
    table.add("b", 1)
    table.register("a")(2)
    assert (list(table), len(table), "a" in table, "z" in table, table["b"]) == (["b", "a"], 2, True, False, 1)
    with pytest.raises(ConfigError, match="thing 'a' is registered already; choose another name"):
        table.add("a", 3)
    with pytest.raises(ConfigError, match=r"unknown thing 'zz'; known: a, b"):
        table["zz"]


def points(monkeypatch: pytest.MonkeyPatch, *values: str) -> Registry[Any]:
    found = [EntryPoint(f"plugin{k}", value, "pacesetter.thing") for k, value in enumerate(values)]
    monkeypatch.setattr(registry, "plugin_points", lambda kind: found if kind == "thing" else [])
    return Registry("thing")


def test_plugins_join_at_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    table = points(monkeypatch, "collections:Counter")
    assert table["plugin0"].__name__ == "Counter"
    assert list(table) == ["plugin0"]


def test_a_broken_plugin_is_named_at_every_look(monkeypatch: pytest.MonkeyPatch) -> None:
    table = points(monkeypatch, "collections:Counter", "no_such_module:thing")
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"plugin thing 'plugin1' \(no_such_module:thing\) does not import"):
            len(table)
