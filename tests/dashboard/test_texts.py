"""Every word of the pages lies in one place."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter

import pytest

from pacesetter import dashboard
from pacesetter.dashboard import settings, texts
from pacesetter.dashboard.views import PAGES, RESULTS
from pacesetter.errors import ConfigError

ROOM = Path(dashboard.__file__).parent
SOURCES = [path.read_text() for path in ROOM.rglob("*.py") if path.name not in ("texts.py", "persian.py")]
NODES = [node for source in SOURCES for node in ast.walk(ast.parse(source))]
SHOWING = {"title", "header", "subheader", "markdown", "caption", "info", "warning", "error", "button", "toggle"}
SHOWING |= {"selectbox", "multiselect", "slider", "radio", "checkbox", "metric", "text_input", "date_input", "expander"}

PERSIAN = texts.LANGUAGES["fa"]


def _said() -> tuple[set[str], tuple[str, ...]]:
    """Keys that `say` is given as they are, and the beginnings of those that are put together, e.g. `status.`."""
    calls = [node for node in NODES if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    keys = [part for call in calls if call.func.id == "say" for part in ast.walk(call.args[0])]
    made = [key.values for key in keys if isinstance(key, ast.JoinedStr)]
    pieces = {piece for values in made for piece in values}
    plain = {key.value for key in keys if isinstance(key, ast.Constant) and key not in pieces}
    return {key for key in plain if "." in key}, (
        "column.",
        *(first.value for first, *_ in made if isinstance(first, ast.Constant)),
    )


def test_every_key_that_is_said_has_a_text():
    plain, starts = _said()
    assert plain - set(texts.ENGLISH) == set()
    assert all(any(key.startswith(start) for key in texts.ENGLISH) for start in starts)


def test_every_text_is_said_somewhere():
    _, starts = _said()
    written = {node.value for node in NODES if isinstance(node, ast.Constant)}
    pages = {f"{name}.{part}" for name in (*PAGES, *RESULTS) for part in ("title", "empty")} | {"language"}
    assert {key for key in texts.ENGLISH if key not in written | pages and not key.startswith(starts)} == set()


def test_no_page_speaks_by_itself():
    """What Streamlit shows is said by key, never written into a page."""
    for path in (ROOM / "views").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SHOWING:
                first = node.args[0] if node.args else None
                assert not (isinstance(first, ast.Constant) and first.value), f"{path.name}:{node.lineno}"


def test_a_second_language_falls_back_to_english(monkeypatch):
    monkeypatch.setitem(texts.LANGUAGES, "de", {"runs.title": "Läufe"})
    before = settings.current_settings()
    settings.use(settings.Settings(language="de"))
    try:
        assert (texts.say("runs.title"), texts.say("book.title")) == ("Läufe", "Book")
    finally:
        settings.use(before)


def test_every_text_is_there_in_persian_with_the_same_values():
    assert set(PERSIAN) == set(texts.ENGLISH)
    for key, template in PERSIAN.items():
        names = [{name for _, name, _, _ in Formatter().parse(text) if name} for text in (template, texts.ENGLISH[key])]
        assert names[0] == names[1], key


def test_a_reader_s_language_goes_before_that_of_the_settings(monkeypatch):
    monkeypatch.setattr(texts, "_readers", [lambda: "fa"])
    assert texts.say("runs.title") == PERSIAN["runs.title"]
    monkeypatch.setattr(texts, "_readers", [lambda: "xx"])
    assert texts.language() == "en"


def test_an_unknown_language_is_refused():
    assert texts.check_language("en") == "en"
    with pytest.raises(ConfigError, match="there are no texts in 'xx'"):
        texts.check_language("xx")


def test_every_text_can_be_filled_in():
    for key, template in texts.ENGLISH.items():
        assert all(name != "" for _, name, _, _ in Formatter().parse(template)), key


def test_columns_have_headings_or_their_own_names():
    assert texts.column("mean_rank") == "mean rank"
    assert texts.column("some_figure") == "some figure"


def test_values_keep_their_direction_in_a_persian_sentence_and_commands_stay_clean(monkeypatch):
    monkeypatch.setattr(texts, "_readers", [lambda: "fa"])
    said = texts.say("book.newest", time="1995-03-21 21:00", age="1 h", bars=120)
    assert "\u20681995-03-21 21:00\u2069" in said
    assert "\u2068120\u2069" in said
    command = texts.say("leadlag.empty", folder="runs")
    assert "`runs`" in command
    assert texts.say("runs.title") == PERSIAN["runs.title"]
    monkeypatch.setattr(texts, "_readers", [lambda: "en"])
    assert (
        texts.say("book.newest", time="T", age="1 h", bars=120) == "Newest bar T UTC, 1 h ago; 120 bars in the journal."
    )
    assert texts.right_to_left("a") == "\u2067a\u2069"
