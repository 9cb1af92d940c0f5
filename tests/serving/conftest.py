"""What tests of serving share: journals on both databases, and a small bundle."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str | None]:
    """The URL of a real PostgreSQL, started for this session; None where it cannot be."""
    from postgres import cluster

    with cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A journal's URL on each database; the PostgreSQL one is emptied first."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'journal.db'}"
    return str(request.getfixturevalue("postgres"))


@pytest.fixture
def postgres(postgres_url: str | None) -> str:
    """The URL of a PostgreSQL, emptied first."""
    if postgres_url is None:
        pytest.skip("NO POSTGRESQL WAS TESTED: no initdb here, or it would not start; install postgresql")
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return postgres_url


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A trained run with its bundle, made once for all; see `bundles.Made`."""
    from bundles import make

    return make(tmp_path_factory.mktemp("serving"))


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A fleet with its lookback agent, likewise."""
    from bundles import make_fleet

    return make_fleet(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="session")
def master(fleet: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A master of that fleet, likewise."""
    from bundles import make_master

    return make_master(tmp_path_factory.mktemp("master"), fleet)
