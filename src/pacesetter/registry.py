"""Names to classes: each id is registered once, options are typed, and a typo says "did you mean".

A registered member is a frozen dataclass whose fields are its options, or a function. An outside package adds
one by an entry point in the group `pacesetter.<kind>`, without touching anything here.
"""

from __future__ import annotations

import dataclasses
import numbers
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec
from typing import Any, Generic, Literal, TypeVar, cast

from pacesetter.errors import ConfigError, did_you_mean
from pacesetter.late import load

__all__ = ["Registry", "configure", "is_installed"]

Member = TypeVar("Member")
Config = TypeVar("Config")


def is_installed(module: str) -> bool:
    """Whether a module can be imported; a family of methods may have been deleted."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


@cache
def _installed_points() -> EntryPoints:
    """Those of all packages: reading their files takes 20 ms, and each registry asks."""
    return cast(EntryPoints, entry_points())  # of Python 3.11 by group; `select` is the same


def plugin_points(kind: str) -> EntryPoints:
    """The entry points by which installed packages add members of a kind."""
    return _installed_points().select(group=f"pacesetter.{kind}")


class Registry(Generic[Member]):
    """An ordered `name -> member` table; entry points of `pacesetter.<kind>` join at the first look.

    entries   name → "module:attribute" of the members that are known beforehand; one is imported when it is asked for
    declared  gives members that are declared elsewhere, e.g. in files; it is asked at the first look
    """

    def __init__(
        self,
        kind: str,
        declared: Callable[[], Mapping[str, Member]] | None = None,
        entries: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self._declared = declared
        self._members: dict[str, Member | str] = dict(entries or {})
        self._plugins_read = False

    def register(self, name: str) -> Callable[[Member], Member]:
        """Decorator that files a member under `name`; a name is given once."""

        def file(member: Member) -> Member:
            self.add(name, member)
            return member

        return file

    def add(self, name: str, member: Member) -> None:
        """File `member` under `name`; refuses a name that is taken."""
        if name in self._members:
            raise ConfigError(f"{self.kind} '{name}' is registered already; choose another name")
        self._members[name] = member

    def __getitem__(self, name: str) -> Member:
        self._read_plugins()
        if not isinstance(name, str):
            raise ConfigError(f"{self.kind} is given by its name, not as {type(name).__name__}{did_you_mean('', self)}")
        if name not in self._members:
            raise ConfigError(f"unknown {self.kind} '{name}'{did_you_mean(name, self._members)}")
        member = self._members[name]
        if isinstance(member, str):
            member = self._members[name] = load(member)
        return cast(Member, member)

    def __contains__(self, name: object) -> bool:
        self._read_plugins()
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        self._read_plugins()
        return iter(self._members)

    def __len__(self) -> int:
        self._read_plugins()
        return len(self._members)

    def _read_plugins(self) -> None:
        if self._plugins_read:
            return
        self._plugins_read = True  # before loading: a plugin may look into the registry while it is imported
        for name, declared in self._declared().items() if self._declared is not None else ():
            self.add(name, declared)
        for point in plugin_points(self.kind):
            try:
                member = point.load()
            except Exception as problem:
                self._plugins_read = False  # the next look must not pass as if nothing were missing
                raise ConfigError(
                    f"plugin {self.kind} '{point.name}' ({point.value}) does not import: {problem}; "
                    "fix or uninstall the package that declares it"
                ) from problem
            if self._members.get(point.name) is not member:
                self.add(point.name, member)


def configure(cls: type[Config], options: Mapping[str, object], where: str) -> Config:
    """An instance of the dataclass `cls` from plain options; refuses unknown keys and wrong types by name.

    `where` names the options in messages, e.g. `data` for `data.symbols`.
    """
    if not isinstance(options, Mapping):
        raise ConfigError(f"{where}={options!r} must be a mapping, e.g. {{key: value}}")
    hints = typing.get_type_hints(cls)
    known = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    values = {}
    for key, value in options.items():
        if key not in known:
            raise ConfigError(f"unknown option '{where}.{key}'{did_you_mean(str(key), known)}")
        values[key] = _coerce(value, hints[key], f"{where}.{key}")
    for name, field in known.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise ConfigError(f"{where} needs '{name}': give {where}.{name}=…")
    return cls(**values)


def _coerce(value: Any, hint: Any, where: str) -> object:
    """`value` as `hint` asks for it, without guessing: only lists to tuples, whole floats to int, int to float."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _coerce_union(value, arguments, where)
    if origin is Literal:
        if value not in arguments:
            raise ConfigError(f"{where}={value!r} is unknown{did_you_mean(str(value), map(str, arguments))}")
        return value
    if origin is tuple:
        is_list = isinstance(value, (list, tuple))
        items = value if is_list else [value]
        inner = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else list(arguments)
        if len(inner) != len(items):
            raise ConfigError(f"{where} takes {len(inner)} values, not {len(items)}")
        try:
            return tuple(_coerce(item, kind, where) for item, kind in zip(items, inner, strict=True))
        except ConfigError as problem:
            if is_list:
                raise
            raise ConfigError(f"{problem}; give a list, e.g. {where}=[a,b]") from problem
    if origin is dict:
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where}={value!r} must be a mapping, e.g. {{key: value}}")
        return {key: _coerce(item, arguments[1], f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return value if isinstance(value, hint) else configure(hint, value, where)
    return _coerce_scalar(value, hint, where)


def _coerce_union(value: object, hints: tuple[object, ...], where: str) -> object:
    if value is None and type(None) in hints:
        return None
    problem: ConfigError | None = None
    for hint in (hint for hint in hints if hint is not type(None)):
        try:
            return _coerce(value, hint, where)
        except ConfigError as refused:
            problem = problem or refused
    raise problem or ConfigError(f"{where}={value!r} is not allowed")


def _coerce_scalar(value: Any, hint: Any, where: str) -> object:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)  # NumPy's are Real too
    if hint is float and number:
        return float(value)
    if hint is int and number and float(value).is_integer():
        return int(value)
    if isinstance(hint, type) and isinstance(value, hint) and not (hint is int and isinstance(value, bool)):
        return value
    kind = getattr(hint, "__name__", str(hint))
    if hint is float and isinstance(value, str) and value.endswith("%"):
        raise ConfigError(f"{where}={value!r} must be a share of 1, e.g. 0.1 for 10 %")
    raise ConfigError(f"{where}={value!r} must be of type {kind}, not {type(value).__name__}")
