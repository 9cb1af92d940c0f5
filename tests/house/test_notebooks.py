"""Every notebook runs from top to bottom, and its cells print what they say."""

from __future__ import annotations

from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.py"))
SAID = {"agent_analysis": ("No edge found: ppo", "Attribution by feature", "Sharpe ratio at 2× costs", "alarms: ")}


@pytest.mark.filterwarnings("ignore")  # of the kernel's own machinery; what runs inside it is another process
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.proof
def test_notebook_runs(path, tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = jupytext.read(path)
    NotebookClient(notebook, timeout=250, resources={"metadata": {"path": str(tmp_path)}}).execute()
    printed = "".join(
        output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []) if "text" in output
    )
    whole = " ".join(printed.split())  # lines end where the terminal's width says
    for words in SAID[path.stem]:
        assert words in whole
