"""Execute notebooks/gallery/*.py into docs/gallery/*.ipynb, which the site shows with their outputs.

python scripts/gallery.py                       # all that have changed since they were executed
python scripts/gallery.py reproduce_a_paper     # these
python scripts/gallery.py --check               # run none; name those whose cells are not those of the source
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import jupytext

ROOT = Path(__file__).resolve().parents[1]
SOURCES, TARGETS = ROOT / "notebooks" / "gallery", ROOT / "docs" / "gallery"
SECONDS = 300  # of a cell
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def names() -> list[str]:
    return sorted(path.stem for path in SOURCES.glob("*.py"))


def cells(name: str) -> list[str]:
    """The source's cells, as an executed notebook must have them."""
    return [str(cell.source) for cell in jupytext.read(SOURCES / f"{name}.py").cells]


def is_stale(name: str) -> bool:
    """Whether the executed notebook is missing, or was made of other cells."""
    target = TARGETS / f"{name}.ipynb"
    if not target.is_file():
        return True
    executed = ["".join(cell["source"]) for cell in json.loads(target.read_text())["cells"]]
    return list(map(_meaning, executed)) != list(map(_meaning, cells(name)))


def _meaning(source: str) -> str:
    """Code without its layout, which changes no output; other text as it is."""
    try:
        return ast.dump(ast.parse(source))
    except SyntaxError:
        return source


def execute(name: str) -> Path:
    """Run a notebook in an empty folder and write it with its outputs, without what differs from run to run."""
    from nbclient import NotebookClient

    notebook = jupytext.read(SOURCES / f"{name}.py")
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}}).execute()
    for place, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{place}"
        cell["metadata"] = {}
        if cell.cell_type == "code":
            cell["outputs"] = [each for each in map(_kept, cell["outputs"]) if each is not None]
    notebook.metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    TARGETS.mkdir(parents=True, exist_ok=True)
    target = TARGETS / f"{name}.ipynb"
    target.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    return target


def _kept(output: Any) -> Any:
    """Printed text, values and pictures; progress and warnings on stderr belong to the machine, not to the page."""
    if output.get("name") == "stderr":
        return None
    if "data" in output:
        wanted = ("image/png",) if "image/png" in output["data"] else ("text/plain", "text/html")
        output["data"] = {kind: text for kind, text in output["data"].items() if kind in wanted}
        output["metadata"] = {}
    return output


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *names()], metavar="NAME", help=", ".join(names()))
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(words)
    stale = [name for name in names() if is_stale(name)]
    if options.check:
        if stale:
            sys.exit(f"executed from other cells: {', '.join(stale)}; run python scripts/gallery.py")
        return
    for variable in THREADS:
        os.environ.setdefault(variable, "1")
    for name in options.names or stale:
        print(f"{name} …", flush=True)
        print(f"  → {execute(name).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
