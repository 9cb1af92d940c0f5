"""Say which sections of the Persian pages are older than their English source.

    python scripts/translations.py                                # list stale sections; exit 1 if there is one
    python scripts/translations.py --stamp                        # note that every section is up to date
    python scripts/translations.py --stamp "README.fa.md: More"   # that one only, named as in the list

A section of a Persian page begins with `<!-- of: HEADING HASH -->`: the English heading that it was translated from,
and a hash of the English text at that time. Stamp a section after you have translated it, not before.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAIRS = {  # Persian page → English page
    "README.fa.md": "README.md",
    "docs/fa/setup.md": "docs/setup.md",
    "docs/fa/quickstart.md": "docs/quickstart.md",
}
MARK = re.compile(r"^<!-- of: (?P<heading>.+?)(?: (?P<hash>[0-9a-f]{12}))? -->$", re.M)
FENCE = re.compile(r"^```.*?^```$", re.M | re.S)


def english_sections(text: str) -> dict[str, str]:
    """Heading → text until the next heading; a `#` inside a code block is not a heading."""
    hidden = FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    starts = list(re.finditer(r"^#+ (.+)$", hidden, re.M))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {start[1].strip(): text[start.start() : end] for start, end in zip(starts, ends, strict=True)}


def persian_sections(text: str) -> dict[str, tuple[str, str]]:
    """English heading → hash (empty before the first stamp) and the Persian text until the next mark."""
    marks = list(MARK.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {
        mark["heading"]: (mark["hash"] or "", text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)
    }


def fingerprint(section: str) -> str:
    """Twelve hex digits of the text; where its lines are broken does not matter."""
    return hashlib.sha256(" ".join(section.split()).encode()).hexdigest()[:12]


def stale_sections(english: str, persian: str) -> Iterator[tuple[str, str]]:
    """Heading and reason of every section that is missing, left over or older than the English text."""
    source, translated = english_sections(english), persian_sections(persian)
    for heading, text in source.items():
        if heading not in translated:
            yield heading, "is not translated"
        elif translated[heading][0] != fingerprint(text):
            yield heading, "changed since it was translated"
    yield from ((heading, "is no longer on the English page") for heading in translated if heading not in source)


def stamped(english: str, persian: str, headings: set[str] | None = None) -> str:
    """The Persian page with the hashes of today's English text, of these headings only where they are given."""
    source = english_sections(english)

    def renew(mark: re.Match[str]) -> str:
        heading = mark["heading"]
        if heading not in source or (headings is not None and heading not in headings):
            return mark[0]
        return f"<!-- of: {heading} {fingerprint(source[heading])} -->"

    return MARK.sub(renew, persian)


def report(root: Path = ROOT) -> list[str]:
    """`PAGE: HEADING reason` for every stale section of every page."""
    return [
        f"{persian}: {heading} ({reason} in {english})"
        for persian, english in PAIRS.items()
        for heading, reason in stale_sections((root / english).read_text(), (root / persian).read_text())
    ]


def stamp(names: list[str], root: Path = ROOT) -> None:
    """Write the hashes; `names` are `PAGE: HEADING`, none of them means all."""
    wanted = [tuple(name.split(": ", 1)) for name in names]
    unknown = next((name for name in wanted if len(name) != 2 or name[0] not in PAIRS), None)
    if unknown:
        sys.exit(f"error: '{': '.join(unknown)}' is not PAGE: HEADING; the pages are {', '.join(PAIRS)}")
    for persian, english in PAIRS.items():
        headings = {heading for page, heading in wanted if page == persian} if names else None
        page = root / persian
        page.write_text(stamped((root / english).read_text(), page.read_text(), headings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stamp", nargs="*", metavar="PAGE: HEADING", help="note sections as up to date")
    options = parser.parse_args()
    if options.stamp is not None:
        stamp(options.stamp)
    stale = report()
    print("\n".join(stale) or "every Persian section is up to date")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
