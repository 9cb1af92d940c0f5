"""The documentation's site: every page, link and notebook of it follows from the repository's files."""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
gallery, site = __import__("gallery"), __import__("site_pages")
sys.path.pop(0)

ROOT = Path(__file__).resolve().parents[2]
BOOKS = gallery.names()
TOPICS = ("your_data", "judge", "lookback", "fleet", "plugin", "bitcoin", "paper")


def test_the_gallery_has_every_topic_executed_from_its_source():
    assert all(any(topic in name for name in BOOKS) for topic in TOPICS)
    assert [name for name in BOOKS if gallery.is_stale(name)] == []


@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_was_executed_to_its_end(name):
    cells = gallery.own_cells(gallery.TARGETS / f"{name}.ipynb")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert outputs
    assert all(output["output_type"] != "error" for output in outputs)
    pages = site.notebook_pages(gallery.TARGETS / f"{name}.ipynb")
    page = pages[f"gallery/{name}.md"]
    assert page.startswith("# ")
    pictures = set(re.findall(r"\]\((\w+\.png)\)", page))
    assert pictures == {posixpath.basename(uri) for uri in pages if uri.endswith(".png")}


@pytest.mark.parametrize("name", BOOKS)
def test_a_notebook_opens_in_colab_and_installs_what_it_needs(name, monkeypatch):
    cells = json.loads((gallery.TARGETS / f"{name}.ipynb").read_text())["cells"]
    assert cells[1:3] == gallery.head(name)
    assert "[![Open in Colab](https://colab.research.google.com/" in cells[1]["source"]
    asked = []
    monkeypatch.setattr(subprocess, "run", lambda line, check: asked.append(line))
    exec(cells[2]["source"], {})
    assert asked == []  # it is installed here
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    exec(cells[2]["source"], {})
    assert asked[0][:4] == [sys.executable, "-m", "pip", "install"]
    assert asked[0][-1].startswith(("pacesetter[rl,evaluate] @ ", "pacesetter @ "))


def test_every_link_of_the_site_leads_to_a_page():
    pages = site.generated_pages()
    known = set(pages) | {path.relative_to(site.DOCS).as_posix() for path in site.DOCS.rglob("*") if path.is_file()}
    for uri in sorted(name for name in known if name.endswith(".md")):
        text = pages[uri] if uri in pages else (site.DOCS / uri).read_text()
        page = SimpleNamespace(file=SimpleNamespace(src_uri=uri))
        for found in site.LINK.finditer(site.on_page_markdown(str(text), page, None, None)):
            target = posixpath.normpath(posixpath.join(posixpath.dirname(uri), found["target"]))
            assert target in known, f"{uri} links to {found['target']}"


def test_the_menu_has_every_guide_and_notebook():
    config = SimpleNamespace(nav=yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    named = json.dumps(site.on_config(config).nav)
    for path in (*site.DOCS.glob("*.md"), *site.GALLERY.glob("*.ipynb")):
        assert f"{path.stem}.md" in named, path.name


def test_what_the_reference_documents_exists():
    for names in site.REFERENCE.values():
        for name in names:
            path = ROOT / "src" / Path(*name.split("."))
            is_module = path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()
            home = path.parent.with_suffix(".py") if path.parent.with_suffix(".py").is_file() else path.parent
            text = (home if home.is_file() else home / "__init__.py").read_text()
            assert is_module or re.search(rf"\b{path.name}\b", text), name


@pytest.mark.proof
def test_the_site_is_built_strictly_and_loads_nothing_from_elsewhere(tmp_path):
    tool = shutil.which("mkdocs", path=f"{ROOT / '.venv-docs/bin'}{os.pathsep}{os.environ.get('DOCS_BIN', '')}")
    if tool is None:
        pytest.skip("NOT BUILT: the site's tools are missing; run make site")
    command = [tool, "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert (tmp_path / "search" / "search_index.json").is_file()
    assert "LeadLag" in (tmp_path / "reference" / "lead_lag.html").read_text()
    loaded = re.compile(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="https?://(?!localhost)')
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
