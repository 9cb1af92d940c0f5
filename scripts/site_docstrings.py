"""Docstrings as this code base writes them, for mkdocstrings: aligned lists and examples keep their lines."""

from __future__ import annotations

import re
from typing import Any

import griffe

ALIGNED = re.compile(r"^ {0,4}\S.*?\S {2,}\S|^\S+ {2,}\S")  # a name, two spaces or more, its meaning


def fenced(text: str) -> str:
    """The docstring with each paragraph that is aligned in columns, or is a session, as a block of code."""
    paragraphs = re.split(r"\n\s*\n", text.strip("\n"))
    return "\n\n".join(_fence(paragraph) for paragraph in paragraphs)


def _fence(paragraph: str) -> str:
    lines = paragraph.splitlines()
    if lines[0].lstrip().startswith((">>>", "```")):
        return paragraph if lines[0].startswith("```") else f"```pycon\n{paragraph}\n```"
    is_aligned = any(ALIGNED.match(line) for line in lines)
    return f"```text\n{paragraph}\n```" if is_aligned else paragraph


class AlignedDocstrings(griffe.Extension):
    """Rewrites every docstring when it is read."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
