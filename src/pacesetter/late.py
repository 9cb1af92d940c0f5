"""What a command may not need is imported when it is first asked for: names of a package, and whole libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, module_from_spec, spec_from_loader
from threading import RLock
from types import ModuleType
from typing import Any

__all__ = ["import_late", "load", "names_on_use"]

WAITING = "__waiting__"  # among the names of a library that was not imported yet
LOADING = RLock()  # a second thread waits for the whole library


class _Late(ModuleType):
    """A library that runs its body at the first look into it.

    Not `importlib.util.LazyLoader`: there `import pandas` is such a look by itself (Python 3.11).
    """

    def __getattr__(self, name: str) -> object:
        _import_now(self)
        if self.__class__ is _Late:  # its own body asks, before it is there
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}' yet")
        return getattr(self, name)


def _import_now(library: ModuleType) -> None:
    """Import a library that waits for it."""
    with LOADING:
        if not vars(library).pop(WAITING, False):
            return
        spec = library.__spec__
        assert spec is not None
        assert spec.loader is not None
        try:
            spec.loader.exec_module(library)
        except BaseException:
            del sys.modules[library.__name__]
            raise
        library.__class__ = ModuleType


class _WholeFirst(MetaPathFinder, Loader):
    """Imports the whole library before any module of it, and that module only once."""

    def __init__(self, library: ModuleType) -> None:
        self.library = library
        self.specs: dict[str, ModuleSpec | None] = {}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(f"{self.library.__name__}.") or WAITING not in vars(self.library):
            return None
        _import_now(self.library)
        if name not in sys.modules:
            return None
        # importlib would take the spec of a module that came meanwhile, and run its body again.
        self.specs[name], sys.modules[name].__spec__ = sys.modules[name].__spec__, None
        return spec_from_loader(name, self)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.specs.pop(module.__name__)  # its own again


def import_late(*names: str) -> None:
    """Let `import NAME` cost nothing until the library is used; one that is there, or not installed, stays as it is."""
    for name in names:
        spec = None if name in sys.modules else find_spec(name)
        if spec is not None and spec.loader is not None:
            library = module_from_spec(spec)
            library.__class__ = _Late
            vars(library)[WAITING] = True
            sys.modules[name] = library
            sys.meta_path.insert(0, _WholeFirst(library))


def load(target: object) -> Any:
    """An object as it is, or the one at "module:attribute"."""
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def names_on_use(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package whose names are imported from their modules on first use: name → module."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(import_module(homes[name]), name)

    return find
