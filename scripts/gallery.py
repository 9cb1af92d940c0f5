"""Execute notebooks/gallery/*.py into docs/gallery/*.ipynb, which the site shows with their outputs.

python scripts/gallery.py                       # all that have changed since they were executed
python scripts/gallery.py reproduce_a_paper     # these
python scripts/gallery.py --check               # run none; name those whose cells are not those of the source
python scripts/gallery.py --heads               # run none; write badge and installing cell of all again

Each notebook has a badge that opens it in Colab, and a cell that installs the package where it is missing. Both use
the address of `[project.urls] Repository` in pyproject.toml. Without one the notebook and a wheel are uploaded by hand.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

import jupytext

ROOT = Path(__file__).resolve().parents[1]
SOURCES, TARGETS = ROOT / "notebooks" / "gallery", ROOT / "docs" / "gallery"
SECONDS = 300  # of a cell
COLAB = "https://colab.research.google.com"
HEAD = {"tags": ["colab"]}  # metadata of the cells that are not the source's
INSTALL = """# Installs the package where it is missing, as in Colab; elsewhere this cell does nothing.
import importlib.util
import subprocess
import sys

if importlib.util.find_spec("pacesetter") is None:
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "SOURCE"], check=True)"""
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
    executed = ["".join(cell["source"]) for cell in own_cells(target)]
    return list(map(_meaning, executed)) != list(map(_meaning, cells(name)))


def own_cells(target: Path) -> list[dict[str, Any]]:
    """The cells of an executed notebook that come from its source."""
    found: list[dict[str, Any]] = json.loads(target.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["metadata"] != HEAD]


def head(name: str) -> list[dict[str, Any]]:
    """A badge that opens the notebook in Colab, and the cell that installs the package there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    address = project.get("urls", {}).get("Repository", "")
    needs_torch = any("torch" in cell or "train(" in cell for cell in cells(name))
    package = "pacesetter[rl,evaluate]" if needs_torch else "pacesetter"
    if address:
        link = f"{COLAB}/github/{address.removeprefix('https://github.com/')}/blob/main/docs/gallery/{name}.ipynb"
        about, source = "", f"{package} @ git+{address}"
    else:
        link, about = COLAB, " Upload this notebook there, and beside it the wheel that `make release` builds."
        source = f"{package} @ file:///content/pacesetter-{_version()}-py3-none-any.whl"
    badge = f"[![Open in Colab]({COLAB}/assets/colab-badge.svg)]({link}){about}"
    install = {"execution_count": None, "outputs": []}
    return [
        {"cell_type": "markdown", "id": "colab-badge", "metadata": HEAD, "source": badge},
        {"cell_type": "code", "id": "colab-install", "metadata": HEAD} | install
        | {"source": INSTALL.replace("SOURCE", source)},
    ]  # fmt: skip


def _version() -> str:
    text = (ROOT / "src" / "pacesetter" / "__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def write(name: str, notebook: dict[str, Any], own: list[dict[str, Any]]) -> Path:
    """An executed notebook with its head between title and cells."""
    target = TARGETS / f"{name}.ipynb"
    TARGETS.mkdir(parents=True, exist_ok=True)
    whole = notebook | {"cells": [own[0], *head(name), *own[1:]]}
    target.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return target


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
    return write(name, notebook, notebook.cells)


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
    parser.add_argument("--heads", action="store_true")
    options = parser.parse_args(words)
    if options.heads:
        for name in names():
            target = TARGETS / f"{name}.ipynb"
            write(name, json.loads(target.read_text(encoding="utf-8")), own_cells(target))
        return
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
