"""Text uses the field's words: no term of `tests/house/words.txt` occurs in docs, messages, comments or YAML."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORDS = ROOT / "tests" / "house" / "words.txt"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OTHERS = [ROOT / "Makefile", *sorted((ROOT / "src" / "pacesetter" / "conf").rglob("*.yaml"))]
TEMPLATES = sorted((ROOT / "src" / "pacesetter").rglob("templates/*"))

# Forms that a list of words cannot hold: "is no file" is archaic, "there is no file" and "is no longer" are not.
PATTERNS = {
    r"(?<!there )\b(?:is|are|was) no (?!longer\b|more than\b|less than\b)\w+": "is not a …",
    r"\b(?:it|that|which) told\b": "name the thing itself",
    r"\bof a (?:fleet|master|run|policy),? the \w+ can\b": "only a fleet's … can",
}
DOCS_ONLY = {r"(?<!lag\.)\bincrements?\b": "bars, hours, days", r"\broom\b(?! under| for|,is)": "package"}
FIRST_WORD = re.compile(r"\\b(\w+)(?=\\)")  # of a pattern that begins with a whole word
LONGEST_LINE = 120
LONGEST_SENTENCE = 30  # words


def replaced_terms() -> dict[str, str]:
    """Term → what to write instead, from the list that codespell reads too (it takes single words only)."""
    lines = [line for line in WORDS.read_text().splitlines() if "->" in line]
    return {term: better.rstrip(",") for term, better in (line.split("->") for line in lines)}


def texts_of_python(path: Path) -> Iterator[tuple[int, str]]:
    """Line number and text of each comment and string; names of variables are not text."""
    with path.open(encoding="utf-8") as file:
        for token in tokenize.generate_tokens(io.StringIO(file.read()).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)):
                yield from enumerate(token.string.splitlines(), start=token.start[0])


def texts(path: Path) -> Iterator[tuple[int, str]]:
    if path.suffix == ".py":
        yield from texts_of_python(path)
    else:
        yield from enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)


def findings(path: Path, patterns: dict[str, str]) -> list[str]:
    """`file:line: term → better` for every use of a replaced term."""
    whole = path.read_text(encoding="utf-8")
    words = set(re.findall(r"\w+", whole.lower()))
    compiled = [
        (re.compile(pattern, re.IGNORECASE), better)
        for pattern, better in patterns.items()
        if (first := FIRST_WORD.match(pattern)) is None or first[1].lower() in words  # of hundreds, a file has few
    ]
    if not any(pattern.search(whole) for pattern, _ in compiled):  # taking a file apart takes longer
        return []
    return [
        f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name}:{line}: {match[0]!r} → {better}"
        for line, text in texts(path)
        for pattern, better in compiled
        for match in pattern.finditer(text)
    ]


def all_patterns() -> dict[str, str]:
    words = {rf"\b{re.escape(term)}\b": better for term, better in replaced_terms().items()}
    return words | PATTERNS


def test_source_uses_the_words_of_the_field():
    assert [note for path in [*SOURCES, *OTHERS, *TEMPLATES] for note in findings(path, all_patterns())] == []


def test_pages_use_the_words_of_the_field():
    assert [note for path in PAGES for note in findings(path, all_patterns() | DOCS_ONLY)] == []


def test_a_replaced_term_is_reported_with_file_and_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("fine\nThe yearly Sharpe ratio; x is no file; there is no file; no rooms\n")
    notes = findings(page, all_patterns())
    assert all(note.startswith("page.md:2: ") for note in notes)
    assert {note.split("'")[1] for note in notes} == {"yearly", "yearly Sharpe", "is no file", "rooms"}


def test_names_in_python_are_not_text(tmp_path):
    source = tmp_path / "module.py"
    source.write_text("rooms = 1\nprint('two rooms')  # anew\n")
    assert [note.split(": ")[0] for note in findings(source, all_patterns())] == ["module.py:2", "module.py:2"]


def without_code(page: Path) -> str:
    """The page with empty lines where its code blocks were, so that line numbers stay."""
    return re.sub(r"^```.*?^```", lambda fence: "\n" * fence[0].count("\n"), page.read_text(), flags=re.M | re.S)


def sentences(page: Path) -> list[str]:
    """The prose of a page: tables, headings and pictures left out, each list item on its own."""
    lines = [line for line in without_code(page).splitlines() if not line.startswith(("|", "#", "!["))]
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", "\n".join(lines))
    return [part for text in paragraphs for part in re.split(r"(?<=[.:;?!])\s+", " ".join(text.split()))]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_sentences_of_pages_are_short(page):
    """A span of code or a link's address is one word; a colon or semicolon ends a thought, like a full stop."""
    plain = [re.sub(r"`[^`]*`", "code", re.sub(r"\]\([^)]*\)", "]", sentence)) for sentence in sentences(page)]
    assert [sentence for sentence in plain if len(sentence.split()) >= LONGEST_SENTENCE] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_lines_of_pages_are_short(page):
    """Tables and the output of commands cannot be wrapped; everything else can."""
    long = [
        f"{page.name}:{number}: {len(line)} characters"
        for number, line in enumerate(without_code(page).splitlines(), start=1)
        if len(line) >= LONGEST_LINE and not line.startswith(("|", "!["))
    ]
    assert long == []


def test_spelling():
    """The same check as `make lint`, for who runs pytest alone."""
    command = shutil.which("codespell")
    if command is None:
        pytest.skip("codespell is not installed (extra dev)")
    line = [command, "-D", "-", "-D", str(WORDS), "src", "docs", "examples", "scripts", "README.md", "CONTRIBUTING.md"]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
