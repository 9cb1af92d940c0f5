"""Names of packages and whole libraries that are imported when they are first used."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from pacesetter import build, leadlag
from pacesetter.late import import_late, names_on_use


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package on the path that takes a moment to import, and counts how often it is."""
    folder = tmp_path / "slow_library"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "import sys, time\nfrom slow_library.inner import counted\ncounted.append(1)\ntime.sleep(0.1)\nlast = 'done'\n"
    )
    (folder / "inner.py").write_text("counted = []\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in ("slow_library", "slow_library.inner"):
        sys.modules.pop(name, None)


def test_a_library_is_imported_once_at_its_first_use_and_whole_for_every_thread(slow: str) -> None:
    import_late(slow)
    slow_library = import_module(slow)
    assert "slow_library.inner" not in sys.modules
    seen: list[str] = []
    threads = [threading.Thread(target=lambda: seen.append(slow_library.last)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["done"] * 4
    assert slow_library.counted == [1]


def test_a_module_of_the_library_brings_the_whole(slow: str) -> None:
    import_late(slow)
    assert import_module(f"{slow}.inner").counted == [1]


def test_what_is_there_or_not_installed_stays_as_it_is() -> None:
    import_late("pytest", "no_such_library")
    assert sys.modules["pytest"] is pytest
    assert "no_such_library" not in sys.modules


@pytest.mark.parametrize("package", [build, leadlag])
def test_every_public_name_of_a_package_is_found(package: object) -> None:
    assert all(getattr(package, name) is not None for name in package.__all__)  # type: ignore[attr-defined]


def test_another_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'here' has no attribute 'there'"):
        names_on_use("here", {})("there")


def test_a_plan_is_composed_without_pandas() -> None:
    source = (
        "import sys; from pacesetter.late import import_late; import_late('pandas');"
        "from pacesetter.jobs import resolve; resolve(['task=fleet', 'agent=ppo']);"
        "print('pandas.core.api' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", source], capture_output=True, text=True).stdout == "False\n"
