"""Fixtures for any test: ``database`` is a fresh, migrated PostgreSQL database, ``service`` a service on it."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from pixconnect.kernel.rules.access import Caller
from pixconnect.platform.config import POSTGRES_NEWEST, POSTGRES_VERSIONS, PostgresVersion
from support import postgres
from support.kept_pools import kept_pools
from support.plain_logs import use_plain_logs
from support.service import Service, open_holder, open_service

# The same examples in every run, without a time limit, so that a failure is a defect of the code, not a slow machine.
# `HYPOTHESIS_PROFILE=search` looks for new examples.
settings.register_profile(
    "tests",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("search", settings.get_profile("tests"), derandomize=False, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

use_plain_logs()

# Without those of removed features.
pytest_plugins = [f"support.fixtures.{path.stem}" for path in sorted(Path(__file__).parent.glob("support/fixtures/*.py"))]

_serial = count(1)
_own_folder = pytest.StashKey[str]()
_shared_server = pytest.StashKey[postgres.Server]()
_shared_addresses = pytest.StashKey[postgres.Addresses]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--postgres-version",
        choices=POSTGRES_VERSIONS,
        default=POSTGRES_NEWEST,
        help="which embedded PostgreSQL the tests run on",
    )
    parser.addoption("--part", metavar="K/N", help="run one of N parts of the tests, of about the same length")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give each run its own folder.

    It holds homes of PostgreSQL, which runs as another user if the tests run as root. By default all runs share a
    folder, and each start of a run closes it to other users.
    """
    if config.option.basetemp is None and not hasattr(config, "workerinput"):
        config.option.basetemp = config.stash[_own_folder] = tempfile.mkdtemp(prefix="pixconnect-run-")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One worker more than cores, because tests that start processes mostly wait."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Under xdist the controller starts the one server, which outlives every worker."""
    stash = node.config.stash
    if _shared_server not in stash:
        stash[_shared_server] = postgres.Server(_version(node.config))
        stash[_shared_addresses] = stash[_shared_server].start()
    node.workerinput["postgres"] = msgspec.to_builtins(stash[_shared_addresses])


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each worker begins at another folder, so that no two compile the same files of a fresh clone."""
    config = session.config
    workerinput = getattr(config, "workerinput", None)
    if workerinput is not None and config.args == config.getini("testpaths"):
        roots = [Path(__file__).parent / each for each in config.args]
        parts = sorted({str(root / file.relative_to(root).parts[0]) for root in roots for file in root.rglob("test_*.py")})
        begin = len(parts) * int(workerinput["workerid"].removeprefix("gw")) // workerinput["workercount"]
        config.args = [*parts[begin:], *parts[:begin]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path)  # for all workers the same
    if config.option.part:
        _keep_part(config, items)
    for item in items:
        if isinstance(item, pytest.Function) and "postgres_server" in item.fixturenames:
            item.add_marker("sql")


def _keep_part(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep one of N parts: whole groups, dealt out in the order of their names."""
    part, count = map(int, config.option.part.split("/"))
    if not 1 <= part <= count:
        message = f"--part: {config.option.part}: expected K/N with K from 1 to N"
        raise pytest.UsageError(message)

    def find_group(item: pytest.Item) -> str:
        mark = item.get_closest_marker("xdist_group")
        return mark.args[0] if mark else str(item.path)

    kept = set(sorted({find_group(item) for item in items})[part - 1 :: count])
    dropped = [item for item in items if find_group(item) not in kept]
    items[:] = [item for item in items if find_group(item) in kept]
    config.hook.pytest_deselected(items=dropped)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _shared_server in config.stash:
        config.stash[_shared_server].stop()
    if _own_folder in config.stash:
        shutil.rmtree(config.stash[_own_folder], ignore_errors=True)


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


class _Copies:
    """The databases of one worker: used ones are emptied and used again if possible."""

    def __init__(self, server: postgres.Addresses, worker_id: str) -> None:
        self._server = server
        self._worker_id = worker_id
        self._free: list[postgres.Copy] = []

    async def take(self, *, is_new: bool) -> postgres.Copy:
        if self._free and not is_new:
            return self._free.pop()
        return await postgres.Copy.make(self._server, f"test_{self._worker_id}_{next(_serial)}")

    async def give_back(self, copy: postgres.Copy) -> None:
        if await copy.restore():
            self._free.append(copy)
        else:
            await copy.drop(self._server)


@pytest.fixture(scope="session")
def _copies(postgres_server: postgres.Addresses, worker_id: str) -> Iterator[_Copies]:
    yield _Copies(postgres_server, worker_id)
    postgres.Copy.close_all()


@pytest.fixture
async def database(_copies: _Copies) -> AsyncIterator[postgres.Addresses]:
    """A database with all tables and no rows."""
    copy = await _copies.take(is_new=False)
    service_url = copy.addresses.service_url
    kept_pools.keep(copy.addresses.owner_url, service_url, postgres.log_in_second(service_url))
    yield copy.addresses
    await _copies.give_back(copy)


@pytest.fixture
async def new_database(_copies: _Copies) -> AsyncIterator[postgres.Addresses]:
    """A database that was never used before, because dead rows and statistics of other tests would change plans."""
    copy = await _copies.take(is_new=True)
    yield copy.addresses
    await _copies.give_back(copy)


@pytest.fixture
async def service(database: postgres.Addresses) -> AsyncIterator[Service]:
    """A service in this process."""
    async with open_service(database) as opened:
        yield opened


@pytest.fixture
async def caller(service: Service) -> Caller:
    """A holder with R$ 10.000,00."""
    return await open_holder(service, funds_cents=1_000_000)


@pytest.fixture
def home_folder() -> Iterator[Path]:
    """An empty folder for a home, which the server's user can enter, unlike the folders of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-home-"))
    folder.chmod(0o711)
    yield folder
    postgres.remove_home(folder)


def _version(config: pytest.Config) -> PostgresVersion:
    return cast(PostgresVersion, config.getoption("postgres_version"))
