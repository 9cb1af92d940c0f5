"""The pages keep their word: every command, test, file and link that they name exists."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from pacesetter.cli import app
from pacesetter.jobs import resolve
from pacesetter.jobs.hydra.overrides import choices, split_varied

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CAPABILITIES = ROOT / "docs" / "capabilities.md"
REQUIRED = ROOT.parent / "shared" / "CAPABILITIES.md"


def capability_rows() -> list[list[str]]:
    """row, capability, status, command, test of each line of the table."""
    lines = [line for line in CAPABILITIES.read_text().splitlines() if re.match(r"\| (LL|TB|CA|AR|beyond)", line)]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


@cache
def command_tree() -> Any:
    """Every command of ours; making it takes longer than a look into it."""
    return get_command(app)


@cache
def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))


def command_exists(words: list[str]) -> bool:
    """Whether `words` (after `pacesetter`) begin with a command of ours, its groups included."""
    node = command_tree()
    for word in words:
        children = getattr(node, "commands", None)
        if children is None:
            return True
        if word not in children:
            return word.startswith(("-", "…", "[")) or "|" in word
        node = children[word]
    return True


@cache
def names_of_tests(path: str) -> set[str]:
    return {node.name for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", capability_rows(), ids=lambda row: row[0])
def test_capability_names_what_exists(row):
    _, _, status, command, test = row
    assert status in ("works", "works, and does not pay here", "part", "planned")
    if status == "works, and does not pay here":
        assert re.search(r"\d", test.rpartition("`tests/")[2].partition("`")[2]), "the row says by which number"
    if status == "planned":
        return
    assert command, "a row that works names the command that shows it"
    for words in re.findall(r"`([^`]+)`", command):
        assert shown(words), f"{words} does not exist"
    named = re.findall(r"`(tests/[^`]+)`", test)
    assert named, "a row that works names the test that proves it"
    for place in named:
        path, _, name = place.partition("::")
        assert (ROOT / path).exists(), place
        assert not name or name in names_of_tests(path), place


def shown(words: str) -> bool:
    """Whether a command line as the pages write it can be typed."""
    first, *rest = words.split()
    if first == "make":
        return rest[0] in make_targets()
    if first == "pacesetter":
        return command_exists(rest)
    if first == "python":
        return (ROOT / rest[0]).exists()
    return first in ("dvc", "pip")


def test_every_required_row_is_there():
    if not REQUIRED.exists():
        pytest.skip("CAPABILITIES.md is not beside this checkout (../shared)")
    pattern = r"^\| ((?:LL|TB|CA|AR|beyond)[^|]*?) \| ([^|]+) \|"
    listed = REQUIRED.read_text().partition("\n## 13")[0]  # section 13 tells what rows lack; it adds none
    required = {(row, text.strip()) for row, text in re.findall(pattern, listed, re.M)}
    ours = {(row[0], row[1].replace("\\|", "|")) for row in capability_rows()}
    assert required - ours == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        # ../../actions is GitHub's page of the workflow, beside the repository's files and not among them
        assert target.startswith(("http", "../../actions/")) or (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_commands_on_the_pages_exist(page):
    text = page.read_text()
    for words in re.findall(r"`((?:pacesetter|make|python) [^`\n]+)`", text):
        assert shown(words), f"{page.name} names `{words}`"


# ---- command lines as they are typed --------------------------------------------------------------------------------

OWN = ("stage=", "quick", "league.", "ablate.", "selftest.", "launcher", "sweep.", "tune.", "seeds=")  # a command's own
OPEN = re.compile("[<…]|RUN")  # what a reader fills in


def typed_lines(page: Path) -> list[str]:
    """Every `pacesetter …` line of the page's fences, comments and what is joined by && taken apart."""
    fences = re.findall(r"^```\n(.*?)^```", page.read_text(), re.M | re.S)
    lines = [re.split(r"\s#\s", line)[0] for fence in fences for line in fence.splitlines()]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("pacesetter ") and not part.startswith("pacesetter --")]


def parsed(words: list[str]) -> Any:
    """The command that `words` (after `pacesetter`) are read by, and its parameters; refuses options it has not."""
    node = command_tree()
    while commands := getattr(node, "commands", None):
        name = words[0] if words[0] in commands else "make"  # `bundle RUN` is short for `bundle make RUN`
        node, words = commands[name], words[words[0] == name :]
    return node.make_context(node.name, list(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_typed_lines_parse_and_their_overrides_compose(page):
    for line in typed_lines(page):
        context = parsed(shlex.split(line)[1:])
        words = [word for word in context.params.get("overrides") or () if not word.startswith(OWN)]
        words = words[1:] if context.info_name == "ablate" else words  # its first one names a preset
        if context.info_name != "evaluate" and not OPEN.search(" ".join(words)):
            fixed, varied = split_varied(words)
            check_overrides((*fixed, *(choices(override)[0] for override in varied)))


@cache
def check_overrides(words: tuple[str, ...]) -> None:
    """Compose them once: pages, and a page in three languages, give the same lines."""
    resolve(list(words))
