"""Overrides in Hydra's grammar: one or several values, a command's own options, short keys, paths to bars."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from pacesetter.data.loading import source_of
from pacesetter.errors import ConfigError, RunError
from pacesetter.market.parameters import SHORT_KEYS, expand_key
from pacesetter.registry import configure
from pacesetter.runs import Run, check_schema

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

__all__ = [
    "choices",
    "expand_market_keys",
    "name_source",
    "nest_options",
    "parse_override",
    "split_varied",
    "stored_overrides",
    "take_options",
    "write_overrides",
]

Options = TypeVar("Options")
BAR_FILES = (".csv", ".parquet", ".pq")  # what may be given by its path alone
MARKET_KEY = re.compile(rf"market\.(?P<name>.+)|task\.market\.(?P<short>{'|'.join(SHORT_KEYS)}|costs)|(?P<costs>costs)")


def take_options(overrides: Sequence[str], name: str, kind: type[Options]) -> tuple[Options, list[str]]:
    """The dataclass `kind` from `name.key=value` overrides (`name=value` sets its field `name`), and all the others."""
    taken: dict[str, Any] = {}
    rest = []
    for text, override in zip(overrides, _parse_overrides(overrides), strict=True):
        prefix, _, key = override.key_or_group.partition(".")
        if prefix == name:
            *groups, last = (key or "name").split(".")
            place = taken
            for group in groups:  # tune.cem.population=8 is {cem: {population: 8}}
                place = place.setdefault(group, {})
            place[last] = override.value()
        else:
            rest.append(text)
    return configure(kind, taken, name), rest


def split_varied(overrides: Sequence[str]) -> tuple[list[str], list[Override]]:
    """Overrides with one value as they are, and those with several, `agent=ppo,a2c` or `interval(0, 1)`, parsed."""
    parsed = _parse_overrides(overrides)
    fixed = [text for text, override in zip(overrides, parsed, strict=True) if not override.is_sweep_override()]
    return fixed, [override for override in parsed if override.is_sweep_override()]


def choices(override: Override) -> list[str]:
    """Every single override among the values of one with several; refuses an interval, which has no end of them."""
    if not (override.is_choice_sweep() or override.is_range_sweep()):
        raise ConfigError(f"'{override.input_line}' has no list of values; write {override.key_or_group}=first,second")
    key = override.get_key_element()
    return [f"{key}={value}" for value in override.sweep_string_iterator()]


def expand_market_keys(overrides: Sequence[str]) -> list[str]:
    """The overrides with `market.leverage=2`, `market.costs=2` or `costs=2` as the keys of `task.market` they set.

    `market.currency` is that of the account, and stands for `data.currency`.
    """
    expanded: list[str] = []
    for text in overrides:
        key, is_set, value = text.partition("=")
        below = MARKET_KEY.fullmatch(key)
        if below is None or not is_set:
            expanded.append(text)
            continue
        name = below["name"] or below["short"] or below["costs"]
        if name == "currency":  # of the account: what prices are converted into when they are read
            expanded.append(f"data.currency={value}")
            continue
        # A number stands for all costs; everything else is Hydra's to read.
        given = parse_override(text).value() if name == "costs" else value
        given = given if isinstance(given, (int, float)) else value
        expanded += [f"task.market.{each}={part}" for each, part in expand_key(name, given).items()]
    return expanded


def name_source(overrides: Sequence[str]) -> list[str]:
    """The overrides with the source of bars by name where a path was given: FILE, `data=FILE`, `data.path=FILE`."""
    overrides = [f"data={text}" if _is_file_of_bars(text) else text for text in overrides]
    chosen = [text.removeprefix("data=") for text in overrides if text.startswith("data=")]
    paths = [text.removeprefix("data.path=").strip("'\"") for text in overrides if text.startswith("data.path=")]
    if chosen:
        named, options = source_of(chosen[-1].strip("'\""))
        if not options:
            return list(overrides)
        rest = [text for text in overrides if not text.startswith("data=")]
        return [f"data={named}", f"data.path='{options['path']}'", *rest]
    if paths and not any(text.startswith("+preset=") for text in overrides):
        return [f"data={source_of(Path(paths[-1]))[0]}", *overrides]
    return list(overrides)


def _is_file_of_bars(text: str) -> bool:
    return "=" not in text and Path(text).suffix.lower() in BAR_FILES


def write_overrides(settings: Mapping[str, object]) -> list[str]:
    """Settings of Python as overrides: a mapping sets its keys one by one; refuses what no override can say."""
    texts: list[str] = []
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            texts += write_overrides({f"{key}.{name}": each for name, each in value.items()})
        else:
            texts.append(f"{key}={_write_value(key, value)}")
    return texts


def _write_value(key: str, value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, numbers.Real):  # NumPy's among them
        return repr(int(value) if isinstance(value, numbers.Integral) else float(value))
    if isinstance(value, str | Path):
        return _quote(str(value))
    if isinstance(value, list | tuple):
        return f"[{','.join(_write_value(key, each) for each in value)}]"
    if isinstance(value, Mapping):
        return "{}"
    raise ConfigError(f"{key} is a text, a number, a list or a mapping, not {type(value).__name__}")


def _quote(text: str) -> str:
    """A text that stays one in Hydra's grammar; a name, a number or an interpolation as it is."""
    if re.fullmatch(r"[\w./:$^{}-]+", text) or not text:
        return text or "''"
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def stored_overrides(folder: str | Path) -> list[str]:
    """What an earlier search or sweep was asked for; refuses the folder of another kind of run."""
    path = Run.open(folder).folder / "config.yaml"
    stored = yaml.safe_load(path.read_text(encoding="utf-8"))
    if stored.get("overrides") is None:
        raise RunError(f"{folder} is not a sweep or search to resume; for a training run use `train --resume`")
    check_schema(stored, str(path))
    return list(stored["overrides"])


def _parse_overrides(overrides: Iterable[str]) -> list[Override]:
    return [parse_override(text) for text in overrides]


def parse_override(text: str) -> Override:
    """One override in Hydra's grammar; refuses what is none."""
    # Here: Hydra takes longer to import than most commands need for their configuration.
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(text)
    except HydraException as problem:
        raise _not_an_override(text) from problem
    if not override.key_or_group:
        raise _not_an_override(text)
    return override


def _not_an_override(text: str) -> ConfigError:
    return ConfigError(f"'{text}' is not an override; write key=value, e.g. data.symbols=50")


def nest_options(options: list[str]) -> dict[str, object]:
    """KEY=VALUE words as a nested dictionary, values read as YAML; refuses a word that is none."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    tree = OmegaConf.create()
    for word in options:
        if "=" not in word:
            raise ConfigError(f"'{word}' is not KEY=VALUE; write it like feed=replay")
        try:
            tree.merge_with_dotlist([word])
        except (yaml.YAMLError, OmegaConfBaseException) as problem:
            raise ConfigError(f"'{word}' cannot be read; close its brackets and quotes") from problem
    return dict(OmegaConf.to_container(tree))  # type: ignore[arg-type]
