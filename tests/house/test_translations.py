"""The Persian pages say what the English ones say: no stale section, the same code, the same numbers."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = str.maketrans("۰۱۲۳۴۵۶۷۸۹٫٬٪", "0123456789.,%")


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


translations = script("translations")


def sections() -> list[tuple[str, str, str]]:
    """Name, English text and Persian text of every section that both pages have."""
    pairs = []
    for persian, english in translations.PAIRS.items():
        source = translations.english_sections((ROOT / english).read_text())
        translated = translations.persian_sections((ROOT / persian).read_text())
        pairs += [
            (f"{persian}: {name}", source[name], text) for name, (_, text) in translated.items() if name in source
        ]
    return pairs


def numbers(text: str) -> Counter[str]:
    """How often each number occurs outside code blocks and addresses of links, in Latin digits."""
    prose = re.sub(r"\]\([^)]*\)", "]", translations.FENCE.sub("", text)).translate(DIGITS)
    return Counter(re.findall(r"\d+(?:[.,]\d+)*", re.sub(r"<[^>]*>", "", prose)))


def test_no_persian_section_is_stale():
    hint = "translate them, then: python scripts/translations.py --stamp"
    assert translations.report() == [], hint


@pytest.mark.parametrize(("name", "english", "persian"), [pytest.param(*pair, id=pair[0]) for pair in sections()])
def test_code_and_numbers_are_those_of_the_english_section(name, english, persian):
    assert translations.FENCE.findall(persian) == translations.FENCE.findall(english), f"code of {name}"
    assert numbers(persian) == numbers(english), f"numbers of {name}"


@pytest.mark.parametrize("page", translations.PAIRS)
def test_persian_runs_right_to_left_and_code_left_to_right(page):
    text = (ROOT / page).read_text()
    assert text.startswith('<div dir="rtl">\n')
    assert text.count("<div ") == text.count("</div>")
    code = len(translations.FENCE.findall(text))
    assert len(re.findall(r'^<div dir="ltr">\n\n```', text, re.M)) == code
    long = [line for line in translations.FENCE.sub("", text).splitlines() if len(line) >= 120]
    assert [line for line in long if not line.startswith(("|", "!["))] == []


ENGLISH = "# Top\n\none\n\n```\n# not a heading\n```\n\n## Next\n\ntwo\n"
PERSIAN = "<!-- of: Top -->\n# بالا\n\nیک\n\n<!-- of: Next -->\n## بعدی\n\nدو\n"


def test_a_changed_a_new_and_a_removed_section_are_named():
    fresh = translations.stamped(ENGLISH, PERSIAN)
    assert dict(translations.stale_sections(ENGLISH, PERSIAN)).keys() == {"Top", "Next"}
    assert list(translations.stale_sections(ENGLISH, fresh)) == []
    assert list(translations.stale_sections(ENGLISH.replace("one\n", "one  \n"), fresh)) == []
    changed = dict(translations.stale_sections(ENGLISH.replace("two", "three"), fresh))
    assert changed == {"Next": "changed since it was translated"}
    renamed = dict(translations.stale_sections(ENGLISH.replace("## Next", "## Last"), fresh))
    assert renamed == {"Last": "is not translated", "Next": "is no longer on the English page"}


def test_one_section_is_stamped_and_the_report_names_the_page(tmp_path):
    for persian, english in translations.PAIRS.items():
        for name, text in ((persian, PERSIAN), (english, ENGLISH)):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
    translations.stamp([], tmp_path)
    (tmp_path / "README.md").write_text(ENGLISH.replace("one", "1").replace("two", "2"))
    assert translations.report(tmp_path) == [
        "README.fa.md: Top (changed since it was translated in README.md)",
        "README.fa.md: Next (changed since it was translated in README.md)",
    ]
    translations.stamp(["README.fa.md: Top"], tmp_path)
    assert translations.report(tmp_path) == ["README.fa.md: Next (changed since it was translated in README.md)"]
    with pytest.raises(SystemExit, match="is not PAGE: HEADING"):
        translations.stamp(["Top"], tmp_path)
