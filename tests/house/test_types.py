"""Types have one name each."""

from __future__ import annotations

from pathlib import Path

from pacesetter import arrays

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pacesetter"


def test_types_of_arrays_are_named_once():
    files = (path for path in SOURCE.rglob("*.py") if path.name != "arrays.py")
    own_names = [str(path.relative_to(SOURCE)) for path in files if "NDArray" in path.read_text()]
    assert not own_names, f"import {', '.join(arrays.__all__)} from pacesetter.arrays instead of NDArray"
