"""Hooks of the documentation's site (mkdocs.yml): the pages are the repository's own files.

    README → home          docs/*.md → guides            docs/gallery/*.ipynb, executed → gallery
    src → reference        benchmarks/results → results  any other file that a page links to → repository/…

A guide or a notebook that is added needs no entry anywhere. Nothing is fetched.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
DOCS, GALLERY, RESULTS = ROOT / "docs", ROOT / "docs" / "gallery", ROOT / "benchmarks" / "results"
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)(?P<target>[^)#\s]+)(?P<anchor>#[^)]*)?(?=\))")
BADGE = re.compile(r"^\[!\[ci\].*\n", re.M)  # GitHub's own page, which a folder of files has not
HOMES = {"README.md": "index.md", "README.fa.md": "fa/index.md"}
ALWAYS = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
WIDE = ("capabilities.md", "results/capabilities.md", "results/programme.md")
MOST_LETTERS = 6000  # of an output in the gallery
REFERENCE = {  # page -> what it documents
    "Python": ("pacesetter.api", "pacesetter.data.load", "pacesetter.panel.Panel", "pacesetter.runs.Run"),
    "Lead–lag": (
        "pacesetter.leadlag.LeadLag",
        "pacesetter.leadlag.study",
        "pacesetter.leadlag.structure.ranking",
        "pacesetter.leadlag.answer.intervals",
    ),
    "Data and features": (
        "pacesetter.data.synthetic",
        "pacesetter.data.splits",
        "pacesetter.data.quality",
        "pacesetter.features.table",
    ),
    "Market": ("pacesetter.market.parameters", "pacesetter.market.ledger", "pacesetter.market.trades"),
    "Rewards": ("pacesetter.rewards.reward", "pacesetter.rewards.trading"),
    "Policies": ("pacesetter.policies.policy", "pacesetter.evaluation.baselines.catalogue"),
    "Evaluation": (
        "pacesetter.evaluation.backtest.backtest",
        "pacesetter.evaluation.judgement",
        "pacesetter.evaluation.statistics.verdict",
        "pacesetter.evaluation.statistics.metrics",
        "pacesetter.evaluation.statistics.intervals",
        "pacesetter.evaluation.statistics.overfitting",
        "pacesetter.evaluation.report.page",
    ),
    "Learning": ("pacesetter.learning.learner", "pacesetter.learning.methods", "pacesetter.learning.equations"),
    "Errors and registries": ("pacesetter.errors", "pacesetter.registry"),
}


# ---- mkdocs calls these ----------------------------------------------------------------------------------------------


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the parts of the menu that follow from the files."""
    nav: Any = config.nav
    placed = {entry for part in nav for entries in part.values() for entry in _flat(entries)}
    guides = sorted(path.name for path in DOCS.glob("*.md") if path.name not in placed)
    filled = {
        "Guides": guides,
        "Gallery": ["gallery/index.md", *(f"gallery/{path.stem}.md" for path in _notebooks())],
        "Reference": [{name: f"reference/{_slug(name)}.md"} for name in REFERENCE],
        "Results": ["results/index.md", *(_uri(path) for path in sorted(RESULTS.glob("*.md")))],
    }
    config.nav = [{title: filled.get(title, entries) for title, entries in part.items()} for part in nav]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of docs/: home, reference, gallery, results, and whatever is linked to."""
    from mkdocs.structure.files import File  # in the site's own environment only

    for uri, content in generated_pages().items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links between the repository's files become links between pages."""
    origin = _origin(page.file.src_uri)
    if origin is None:
        return markdown
    if origin.name.endswith(".fa.md") or "fa" in origin.relative_to(ROOT).parts[:-1]:
        markdown = f'<div dir="rtl" lang="fa" markdown>\n\n{_without_rtl(markdown)}\n\n</div>\n'
    here = posixpath.dirname(page.file.src_uri)
    return LINK.sub(lambda found: _relinked(found, origin, here), BADGE.sub("", markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page of wide tables has the room of its table of contents."""
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    return html


# ---- which file is which page ----------------------------------------------------------------------------------------


def _uri(path: Path) -> str:
    """The page of a file: pages of docs/ as they are, the README as home, all others below repository/."""
    if path == GALLERY:
        return "gallery/index.md"
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        return f"repository/{name}/{'README' if (path / 'README.md').is_file() else 'index'}.md"
    return HOMES.get(name) or (f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md")


def _origin(uri: str) -> Path | None:
    """The repository's file that a page is made from; None for one that this module writes."""
    home = next((ROOT / name for name, page in HOMES.items() if page == uri), None)
    if home is not None:
        return home
    if uri.startswith("repository/"):
        path = ROOT / uri.removeprefix("repository/")
        return path if path.is_file() else None
    path = DOCS / uri
    return path if path.is_file() else None


def _relinked(found: re.Match[str], origin: Path, here: str) -> str:
    target = (origin.parent / found["target"]).resolve()
    if not target.exists() or not target.is_relative_to(ROOT):
        return found[0]
    return posixpath.relpath(_uri(target), here or ".") + (found["anchor"] or "")


def _without_rtl(markdown: str) -> str:
    """Without the block that sets the direction on GitHub: the whole page is set here."""
    return re.sub(r"</?div[^>]*>\n?", "", markdown)


# ---- pages that are written here -------------------------------------------------------------------------------------


def generated_pages() -> dict[str, str | bytes]:
    pages: dict[str, str | bytes] = {uri: (ROOT / name).read_text() for name, uri in HOMES.items()}
    pages |= {f"reference/{_slug(name)}.md": _reference(name) for name in REFERENCE}
    pages["gallery/index.md"] = _gallery_index()
    for notebook in _notebooks():
        pages |= notebook_pages(notebook)
    pages["results/index.md"] = _results_index()
    return pages | _linked([*(ROOT / name for name in (*HOMES, *ALWAYS)), *DOCS.rglob("*.md"), *RESULTS.glob("*.md")])


def _linked(pages: list[Path]) -> dict[str, str | bytes]:
    """Every file outside docs/ that a page leads to, as a page of its own: text as it is, code as code."""
    found: dict[str, str | bytes] = {}
    queue, known = list(pages), set()
    while queue:
        path = queue.pop()
        path = path / "README.md" if (path / "README.md").is_file() else path
        if path in known or not path.exists() or not path.is_relative_to(ROOT):
            continue
        known.add(path)
        uri = _uri(path)
        if not path.is_relative_to(DOCS) and uri not in HOMES.values():
            found[uri] = _as_page(path)
        if path.suffix == ".md":
            queue += [(path.parent / match["target"]).resolve() for match in LINK.finditer(path.read_text())]
    return found


def _as_page(path: Path) -> str:
    if path.is_dir():
        here = [each for each in sorted(path.rglob("*")) if each.is_file() and "__pycache__" not in each.parts]
        names = "\n".join(f"- `{each.relative_to(path)}`" for each in here)
        return f"# {path.relative_to(ROOT)}\n\n{names}\n"
    if path.suffix == ".md":
        return path.read_text()
    language = {".py": "python", ".yaml": "yaml", ".toml": "toml"}.get(path.suffix, "text")
    return f"# {path.relative_to(ROOT)}\n\n````{language}\n{path.read_text()}\n````\n"


def _reference(name: str) -> str:
    return "\n\n".join([f"# {name}", *(f"::: {each}" for each in REFERENCE[name])]) + "\n"


def _results_index() -> str:
    pages = sorted(RESULTS.glob("*.md"))
    lines = [
        f"- [{_title(path.read_text()) or path.stem}]({posixpath.relpath(_uri(path), 'results')})" for path in pages
    ]
    return "# Results\n\nEvery number with the command that gives it again.\n\n" + "\n".join(lines) + "\n"


# ---- gallery ---------------------------------------------------------------------------------------------------------


def _notebooks() -> list[Path]:
    return sorted(GALLERY.glob("*.ipynb"))


def _gallery_index() -> str:
    lines = ["# Gallery", "", "Executed notebooks. `python scripts/gallery.py` runs them again.", ""]
    for path in _notebooks():
        first = "".join(json.loads(path.read_text())["cells"][0]["source"])
        about = first.split("\n\n")[1].replace("\n", " ") if "\n\n" in first else ""
        lines.append(f"- [{_title(first)}]({path.stem}.md): {about}")
    return "\n".join(lines) + "\n"


def notebook_pages(path: Path) -> dict[str, str | bytes]:
    """An executed notebook as a page, and its pictures as files beside it."""
    parts, pictures = [], {}
    for cell in json.loads(path.read_text())["cells"]:
        if "colab" in cell["metadata"].get("tags", ()):
            continue
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}_{len(pictures) + 1}.png"
                pictures[f"gallery/{name}"] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![picture {len(pictures)} of this notebook]({name})")
            elif text := "".join(output.get("text", data.get("text/plain", ""))):
                parts.append(f"```text\n{text[:MOST_LETTERS].rstrip()}\n```")
    source_page = os.path.relpath(ROOT / "notebooks" / "gallery" / f"{path.stem}.py", ROOT)
    parts.append(f"Made from `{source_page}` by `python scripts/gallery.py`.")
    return {f"gallery/{path.stem}.md": "\n\n".join(parts) + "\n", **pictures}


def _title(text: str) -> str:
    found = re.search(r"^# (.+)$", text, re.M)
    return found[1] if found else ""


def _slug(name: str) -> str:
    return re.sub(r"\W+", "_", name.lower().replace("–", "_")).strip("_")


def _flat(entries: Any) -> list[str]:
    if isinstance(entries, str):
        return [entries]
    # A page with a title of its own is a mapping of one.
    parts = entries.values() if isinstance(entries, dict) else entries
    return [name for entry in parts for name in _flat(entry)]
