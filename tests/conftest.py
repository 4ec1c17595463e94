"""What any test may ask for: ``database`` is a fresh, migrated PostgreSQL database of its own."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from pixconnect.foundation.postgres_programs import PostgresVersion
from support import postgres

_serial = count(1)
_shared_server = pytest.StashKey[postgres.Server]()
_shared_addresses = pytest.StashKey[postgres.Addresses]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres-version", choices=("16", "18"), default="18", help="which embedded PostgreSQL the tests run on"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under xdist the controller starts the one server, which outlives every worker."""
    stash = node.config.stash
    if _shared_server not in stash:
        stash[_shared_server] = postgres.Server(_version(node.config))
        stash[_shared_addresses] = stash[_shared_server].start()
    node.workerinput["postgres"] = msgspec.to_builtins(stash[_shared_addresses])


def pytest_unconfigure(config: pytest.Config) -> None:
    if _shared_server in config.stash:
        config.stash[_shared_server].stop()


@pytest.fixture(scope="session")
def postgres_server(request: pytest.FixtureRequest) -> Iterator[postgres.Addresses]:
    """The run's server."""
    workerinput = getattr(request.config, "workerinput", None)
    if workerinput is not None:
        yield msgspec.convert(workerinput["postgres"], postgres.Addresses)
        return
    server = postgres.Server(_version(request.config))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
async def database(postgres_server: postgres.Addresses, worker_id: str) -> AsyncIterator[postgres.Addresses]:
    """A database with all tables and no rows, dropped after the test."""
    name = f"test_{worker_id}_{next(_serial)}"
    addresses = await postgres.make_copy(postgres_server, name)
    yield addresses
    await postgres.drop_copy(postgres_server, name)


@pytest.fixture
def home_folder() -> Iterator[Path]:
    """An empty folder for a home, which a server's own user can enter; pytest's own folders are closed to it."""
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    folder.chmod(0o711)
    yield folder
    postgres.remove_home(folder)


def _version(config: pytest.Config) -> PostgresVersion:
    return cast(PostgresVersion, config.getoption("postgres_version"))
