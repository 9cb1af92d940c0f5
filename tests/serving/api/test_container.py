"""What can be said of the container without docker: its files, locks, options and words are there, and torch is not."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import make_url
from typer.main import get_command

from pacesetter.cli import app
from pacesetter.jobs.hydra.overrides import nest_options
from pacesetter.registry import configure
from pacesetter.serving.trader.session import PaperConfig

ROOT = Path(__file__).resolve().parents[3]
STAGES = (ROOT / "Dockerfile").read_text().replace("\\\n", " ").split("\nFROM ")[1:]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
BLOCKED = ("torch", "stable_baselines3", "safetensors")


def test_the_image_is_made_of_files_that_are_there_by_locked_versions_alone() -> None:
    copied = [word for line in re.findall(r"^COPY (?!--from)(.+)$", STAGES[0], re.M) for word in line.split()[:-1]]
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for path in copied:
        assert (ROOT / path).exists(), path
        assert f"!{path}" in kept, path
    packages, own = re.findall(r"pip install (.+?)(?: &&|$)", STAGES[0], re.M)
    assert "locks/serve.txt" in STAGES[0]
    assert packages.endswith("--no-deps --require-hashes -r hashed.txt")
    assert own.endswith("--no-deps .")


def test_the_image_starts_with_a_command_of_ours() -> None:
    (entry,) = re.findall(r"^ENTRYPOINT (.+)$", STAGES[-1], re.M)
    (words,) = re.findall(r"^CMD (.+)$", STAGES[-1], re.M)
    command, *given = json.loads(words)
    known = {name for option in get_command(app).commands[command].params for name in option.opts}  # type: ignore[attr-defined]
    assert json.loads(entry) == ["pacesetter"]
    assert {word for word in given if word.startswith("--")} <= known


def test_the_services_name_what_is_declared() -> None:
    services = COMPOSE["services"]
    for name, service in services.items():
        assert "image" in service or (ROOT / service["build"] / "Dockerfile").is_file()
        assert set(service.get("secrets", ())) <= set(COMPOSE["secrets"])
        assert set(service.get("depends_on", ())) <= set(services)
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), f"{name} is open to others"
        volumes = [volume.split(":")[0] for volume in service.get("volumes", ())]
        assert {volume for volume in volumes if not volume.startswith("./")} <= set(COMPOSE["volumes"])
        assert not re.search(r"PASSWORD: |PASSWORD=(?!.{0,3}\$)", yaml.safe_dump(service)), "a password in the file"


def test_no_service_keeps_capabilities_that_it_does_not_name() -> None:
    for name, service in COMPOSE["services"].items():
        assert service.get("cap_drop") == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert name in ("journal", "proxy") or "cap_add" not in service, name


def test_images_and_actions_are_named_by_their_content() -> None:
    images = [service["image"] for service in COMPOSE["services"].values() if "image" in service]
    bases = re.findall(r"^FROM (\S+)", (ROOT / "Dockerfile").read_text(), re.M)
    workflows = list((ROOT / ".github/workflows").glob("*.y*ml"))
    actions = [action for file in workflows for action in re.findall(r"uses: (\S+)", file.read_text())]
    assert {"ci.yml", "nightly.yml"} <= {file.name for file in workflows}
    assert len(images) + len(bases) == 5
    assert all(re.fullmatch(r"\S+:\S+@sha256:[0-9a-f]{64}", image) for image in [*images, *bases])
    assert all(re.fullmatch(r"\S+@[0-9a-f]{40}", action) for action in actions)


def test_the_proxy_limits_all_but_a_halt_and_is_the_one_that_the_api_believes() -> None:
    content = COMPOSE["configs"]["proxy"]["content"]
    words = COMPOSE["services"]["api"]["command"]
    address = COMPOSE["services"]["proxy"]["networks"]["default"]["ipv4_address"]
    assert words[words.index("--proxy") + 1] == address
    assert {word for word in words if word.startswith("--")} <= {
        name
        for option in get_command(app).commands["serve"].params  # type: ignore[attr-defined]
        for name in option.opts
    }
    halt, rest = re.search(r"location = /v1/halt \{(.+?)\}", content), re.search(r"location / \{(.+?)\}", content, re.S)
    assert halt is not None
    assert "limit_" not in halt[1]
    assert rest is not None
    assert {"limit_req", "limit_conn"} <= set(rest[1].split())
    assert "X-Forwarded-For $$remote_addr" in content  # what a caller claims is not passed on
    assert content.count("{") == content.count("}")


def test_the_trader_is_started_with_options_that_it_has() -> None:
    (line,) = COMPOSE["services"]["paper"]["command"]
    words = line.replace("$${OPTIONS:-feed=replay}", "feed=replay").partition("exec pacesetter paper ")[2].split()
    config = configure(PaperConfig, nest_options(words[1:]), "paper")
    journal = COMPOSE["services"]["journal"]["environment"]
    url = make_url(config.journal)
    assert (url.host, url.username, url.database) == ("journal", journal["POSTGRES_USER"], journal["POSTGRES_DB"])


def test_prometheus_asks_the_api_by_a_declared_token() -> None:
    (job,) = yaml.safe_load(COMPOSE["configs"]["prometheus"]["content"])["scrape_configs"]
    assert job["authorization"]["credentials_file"] == "/run/secrets/metrics_token"
    assert job["static_configs"] == [{"targets": ["api:8000"]}]


SERVE = """
import sys
for name in {blocked}:
    sys.modules[name] = None
import pacesetter.serving.api.server, pacesetter.serving.trader.session
from pacesetter.panel import Panel
from pacesetter.serving import Bundle, Runtime
from pacesetter.serving.api.runtime import ReportedAccount
runtime = Runtime(Bundle.open({bundle!r}))
runtime.feed(Panel.load({panel!r}))
print(len(runtime.decide(ReportedAccount(1e5)).lines))
"""


@pytest.mark.parametrize(
    "kind", ["made", *(pytest.param(name, marks=pytest.mark.proof) for name in ("fleet", "master"))]
)
def test_a_bundle_is_served_without_what_the_image_leaves_out(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    made: Any = request.getfixturevalue(kind)
    panel = str(made.panel.save(tmp_path / "bars.parquet"))
    code = SERVE.format(blocked=BLOCKED, bundle=str(made.folder), panel=panel)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str(len(made.panel.symbols)), done.stderr
