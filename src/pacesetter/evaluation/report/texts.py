"""What pages say, from `conf/texts.yaml`: the store of every language, for reports and for the dashboard."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from pacesetter.runs import read_yaml

__all__ = ["read_texts"]


@cache
def read_texts(page: str, language: str) -> dict[str, str]:
    """Key → text of `report` or `dashboard` in a language, `en` or `fa`; a key that it lacks is left out."""
    texts = read_yaml((files("pacesetter.conf") / "texts.yaml").read_text(encoding="utf-8"))
    return {key: said[language] for key, said in texts[page].items() if language in said}
