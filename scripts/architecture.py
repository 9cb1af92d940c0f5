"""Draw docs/pictures/packages.svg and docs/pictures/training_run.svg from the imports in src.

    python scripts/architecture.py           # write both pictures
    python scripts/architecture.py --check   # exit 1 if a committed picture differs from the code

The layers come from the import-linter contract in pyproject.toml, the texts from package docstrings, the arrows from
import statements. Nothing is placed by hand, so the pictures cannot describe code that is not there.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import textwrap
import tomllib
from collections import defaultdict
from collections.abc import Callable, Iterable
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "pacesetter"
PICTURES = ROOT / "docs" / "pictures"
FOUNDATION = "foundation"  # the modules directly in pacesetter/, drawn as one box
METHODS = "methods"  # its families have modules of many layers, so that no arrow has one direction
RUN = "jobs.run"

Graph = dict[str, set[str]]  # importer → imported

WIDTH, GAP, LINE, BOX = 1180, 30, 16, 300
STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2937 } .name { font-weight: 600 }
.small { font-size: 11.5px; fill: #4b5563 }
.box { fill: #f8fafc; stroke: #475569 } .run { fill: #eef6ff; stroke: #2563eb }
.edge { fill: none; stroke: #64748b; stroke-width: 1.3 } .back { fill: #ffffff }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="#64748b"/></marker></defs>"""


# ---- the import graph --------------------------------------------------------------------------------------------


def module_of(path: Path) -> str:
    """`learning/fleet/ppo.py` → `learning.fleet.ppo`; a package is named without `__init__`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path: Path, modules: set[str]) -> set[str]:
    """Modules of ours that a file imports when it runs; imports for type checking alone carry no data."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            deeper = {f"{node.module}.{alias.name}" for alias in node.names}
            submodules = {name for name in deeper if name.removeprefix("pacesetter.") in modules}
            names |= submodules or {node.module}
    return {name.removeprefix("pacesetter.") for name in names if name.startswith("pacesetter.")} & modules


def import_graph() -> Graph:
    paths = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}
    paths.pop("", None)
    return {name: imports_of(path, set(paths)) - {name} for name, path in paths.items()}


def grouped(graph: Graph, group: Callable[[str], str | None]) -> Graph:
    """The graph between groups of modules; a module whose group is None is left out."""
    result: Graph = defaultdict(set)
    for importer, imported in graph.items():
        if above := group(importer):
            result[above] |= {below for name in imported if (below := group(name)) and below != above}
    return dict(result)


def reachable(graph: Graph, start: str) -> set[str]:
    todo, met = [start], set()
    while todo:
        for name in graph.get(todo.pop(), set()) - met:
            met.add(name)
            todo.append(name)
    return met


def reduced(graph: Graph) -> Graph:
    """Without the arrows that follow from others: a → c is dropped where a → b → … → c exists."""
    return {
        name: {below for below in direct if not any(below in reachable(graph, other) for other in direct - {below})}
        for name, direct in graph.items()
    }


def ranks(graph: Graph) -> dict[str, int]:
    """Longest chain of imports below each node, so that every arrow goes from a higher to a lower rank."""
    depth: dict[str, int] = {}

    def visit(name: str, path: tuple[str, ...] = ()) -> int:
        if name not in depth:
            below = [visit(other, (*path, name)) for other in graph.get(name, ()) if other not in path]
            depth[name] = 1 + max(below, default=-1)
        return depth[name]

    for name in sorted(graph):
        visit(name)
    return depth


# ---- what the boxes say ------------------------------------------------------------------------------------------


def summary(name: str) -> str:
    """The first sentence of a package's or module's docstring."""
    path = SOURCE.joinpath(*name.split("."))
    text = ast.get_docstring(
        ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    )
    return re.split(r"(?<=[.])\s", text or "", maxsplit=1)[0].replace("\n", " ").replace("`", "")


def layers() -> list[list[str]]:
    """Packages from the lowest layer to the highest, as the import-linter contract orders them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rows = [re.findall(r"pacesetter\.(\w+)", row) for row in reversed(settings["layers"])]
    packages = [[name for name in row if (SOURCE / name).is_dir()] for row in rows]
    return [[FOUNDATION], *(row for row in packages if row)]


# ---- drawing -----------------------------------------------------------------------------------------------------


def box_lines(text: str, width: int = 44) -> list[str]:
    return textwrap.wrap(text, width)


def uses(verb: str, names: set[str]) -> list[str]:
    return box_lines(f"{verb} {', '.join(sorted(names))}") if names else []


def place(rows: list[list[str]], heights: dict[str, int]) -> dict[str, tuple[float, float]]:
    """Upper left corner of each box; rows run downwards and are centred."""
    corners, y = {}, 58.0
    for row in rows:
        left = (WIDTH - len(row) * BOX - (len(row) - 1) * GAP) / 2
        for index, name in enumerate(row):
            corners[name] = (left + index * (BOX + GAP), y)
        y += max(heights[name] for name in row) + 44
    return corners


def arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """A curve from the bottom of one box to the top of another."""
    (x1, y1), (x2, y2) = start, end
    bend = max(18.0, (y2 - y1) * 0.45)
    return edge(f"M{x1:.0f},{y1:.0f} C{x1:.0f},{y1 + bend:.0f} {x2:.0f},{y2 - bend:.0f} {x2:.0f},{y2:.0f}")


def detour(start: tuple[float, float], end: tuple[float, float], lane: float, number: int) -> str:
    """A line from the bottom of one box, round all boxes between, to the top of another.

    It crosses only in the gaps between rows; `number` keeps several of them apart there.
    """
    (x1, y1), (x2, y2) = start, end
    low, high = y1 + 8 + 4 * (number % 4), y2 - 14 - 4 * (number % 4)
    return edge(f"M{x1:.0f},{y1:.0f} V{low:.0f} H{lane:.0f} V{high:.0f} H{x2:.0f} V{y2:.0f}")


def edge(path: str) -> str:
    return f'<path class="edge" marker-end="url(#tip)" d="{path}"/>'


def edges(
    arrows: list[tuple[str, str]],
    rows: list[list[str]],
    row_of: dict[str, int],
    corners: dict[str, tuple[float, float]],
    heights: dict[str, int],
) -> list[str]:
    """Curves between neighbouring rows; arrows that skip a row go round the boxes between, each in its own lane."""
    near = [pair for pair in arrows if row_of[pair[1]] - row_of[pair[0]] == 1]
    parts = []
    for above, below in near:
        # Arrows share a box's edge evenly, ordered by the place they lead to, so that few of them cross.
        out = sorted((pair for pair in near if pair[0] == above), key=lambda pair: corners[pair[1]])
        into = sorted((pair for pair in near if pair[1] == below), key=lambda pair: corners[pair[0]])
        x1 = corners[above][0] + BOX * (out.index((above, below)) + 1) / (len(out) + 1)
        x2 = corners[below][0] + BOX * (into.index((above, below)) + 1) / (len(into) + 1)
        parts.append(arrow((x1, corners[above][1] + heights[above]), (x2, corners[below][1])))
    far = [pair for pair in arrows if pair not in near]
    for number, (above, below) in enumerate(far):
        passed = [name for row in rows[row_of[above] : row_of[below] + 1] for name in row]
        is_left = corners[below][0] + BOX / 2 <= WIDTH / 2
        edge_of_boxes = (
            min(corners[name][0] for name in passed) if is_left else max(corners[name][0] + BOX for name in passed)
        )
        lane = edge_of_boxes + (14 + 8 * number) * (-1 if is_left else 1)
        x1 = corners[above][0] + (20 + 8 * number if is_left else BOX - 20 - 8 * number)
        x2 = corners[below][0] + (20 + 8 * number if is_left else BOX - 20 - 8 * number)
        parts.append(detour((x1, corners[above][1] + heights[above]), (x2, corners[below][1]), lane, number))
    return parts


def picture(title: str, rows: list[list[str]], texts: dict[str, list[str]], arrows: Iterable[tuple[str, str]]) -> str:
    """An SVG with a box for each name and its lines of text, and an arrow from the first to the second of each pair."""
    heights = {name: 26 + LINE * len(texts[name]) for row in rows for name in row}
    corners = place(rows, heights)
    row_of = {name: number for number, row in enumerate(rows) for name in row}
    parts = edges(sorted(arrows), rows, row_of, corners, heights)
    for name, (x, y) in corners.items():
        kind = "run" if name.startswith(RUN) else "box"
        parts.append(f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{BOX}" height="{heights[name]}" rx="6"/>')
        parts.append(f'<text class="name" x="{x + 10:.0f}" y="{y + 18:.0f}">{escape(name)}</text>')
        parts += [
            f'<text class="small" x="{x + 10:.0f}" y="{y + 18 + LINE * (number + 1):.0f}">{escape(line)}</text>'
            for number, line in enumerate(texts[name])
        ]
    height = max(y + heights[name] for name, (_, y) in corners.items()) + 24
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img">'
    back = f'<rect class="back" width="{WIDTH}" height="{height:.0f}"/>'
    heading = f'<text class="name" x="{GAP}" y="30">{escape(title)}</text>'
    return "\n".join([head, f"<title>{escape(title)}</title>", STYLE, back, heading, *parts, "</svg>"]) + "\n"


# ---- the two pictures --------------------------------------------------------------------------------------------


def packages_picture() -> str:
    """Data through the packages: an arrow leads from a package to one that imports it."""
    rows = layers()
    drawn = {name for row in rows for name in row}
    rows.append([METHODS])

    def group(module: str) -> str | None:
        top = module.partition(".")[0]
        return top if top in drawn else FOUNDATION if (SOURCE / f"{top}.py").exists() else None

    graph = grouped(import_graph(), group)
    # Every package uses the foundation; its arrows are drawn only to those that use nothing else.
    graph = {name: direct - {FOUNDATION} or {FOUNDATION} for name, direct in graph.items() if name != FOUNDATION}
    texts = {
        name: [*box_lines(summary(name)), *uses("uses", graph[name] - {FOUNDATION})] for name in drawn - {FOUNDATION}
    }
    modules = ", ".join(path.stem for path in sorted(SOURCE.glob("[a-z]*.py")))
    texts[FOUNDATION] = box_lines(f"Modules that every package uses: {modules}")
    texts[METHODS] = box_lines(summary(METHODS))
    arrows = [(below, above) for above, direct in reduced(graph).items() for below in direct]
    return picture("Data through the packages: an arrow leads from a package to one that uses it", rows, texts, arrows)


def run_picture() -> str:
    """A training run: the modules of jobs.run, and the packages whose parts they call."""
    parts = sorted(path for path in SOURCE.rglob("*") if path.is_dir() and (path / "__init__.py").exists())
    packages = {module_of(path / "__init__.py") for path in parts}

    def group(module: str) -> str | None:
        if module.startswith(f"{RUN}."):
            return module
        if "." not in module and module not in packages:
            return None  # errors, runs and the like are used everywhere
        package = module if module in packages else module.rpartition(".")[0]
        return None if package in ("", RUN) else package

    graph = grouped(import_graph(), group)
    inside = {name for name in graph if name.startswith(f"{RUN}.")}
    shown = inside | {below for name in inside for below in graph[name]}
    graph = {name: graph.get(name, set()) & shown if name in inside else set() for name in shown}
    depth = ranks(graph)
    rows = [
        sorted(name for name in inside if depth[name] == rank) for rank in sorted(set(depth.values()), reverse=True)
    ]
    outside = sorted(shown - inside)
    rows = [row[at : at + 3] for row in [*rows, outside] for at in range(0, len(row), 3)]
    texts = {name: [*box_lines(summary(name)), *uses("calls", graph[name] - inside)] for name in shown}
    inner = {name: graph[name] & inside for name in inside}
    arrows = [(above, below) for above, direct in reduced(inner).items() for below in direct]
    return picture("A training run: an arrow leads from a module to one that it calls", rows, texts, arrows)


def pictures() -> dict[Path, str]:
    return {PICTURES / "packages.svg": packages_picture(), PICTURES / "training_run.svg": run_picture()}


def stale(drawn: dict[Path, str]) -> list[str]:
    """Names of the committed pictures that differ from what the code gives."""
    return [path.name for path, text in drawn.items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/architecture.md from the imports in src.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a picture is out of date")
    options = parser.parse_args(arguments)
    drawn = pictures()
    old = stale(drawn)
    if options.check:
        for name in old:
            print(f"docs/pictures/{name} is out of date; run `python scripts/architecture.py`", file=sys.stderr)
        return 1 if old else 0
    for path, text in drawn.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
