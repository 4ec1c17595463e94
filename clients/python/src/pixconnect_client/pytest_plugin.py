"""Pytest fixtures for tests with Pix payments: one service per test run, and a separate holder per test.

The plugin imports and starts the service only when a test requests one of the fixtures.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

if TYPE_CHECKING:
    from pixconnect_client.testing.holder import Pix
    from pixconnect_client.testing.sandbox import Clock, Faults, Sandbox
    from pixconnect_client.testing.service import Run, RunHold

_ALONE = {"pix_clock", "pix_faults"}
"""Fixtures for state that all holders share. Tests that use them run alone."""
_MARKED = ("name", "tax_id", "balance", "scopes")
_Turn = Literal["shared", "alone"]
_WORKER_INPUT = "pixconnect_run"

_hold_key = pytest.StashKey["_Hold"]()
_pix_key = pytest.StashKey["Pix"]()


class _Hold:
    """The run, from its first use until the first process of the run ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._hold: RunHold | None = None
        self._temporary: Path | None = None

    @property
    def run(self) -> Run:
        from pixconnect_client.testing.service import RunHold

        if self._hold is None:
            self._hold = RunHold(self._find_folder())
        return self._hold.run

    def _find_folder(self) -> Path:
        cache: pytest.Cache | None = getattr(self._config, "cache", None)
        if cache is not None:
            # Outside the folders that every worker removes under --cache-clear, possibly while the service runs.
            return cache.mkdir("pixconnect").parents[1] / "pixconnect"
        self._temporary = Path(tempfile.mkdtemp(prefix="pixconnect-pytest-"))
        # If we are root, PostgreSQL's own user must be able to enter the folder.
        self._temporary.chmod(0o711)
        return self._temporary

    def release(self) -> None:
        if self._hold is not None:
            self._hold.release()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("pixconnect_settings", "Settings of the service, one NAME=value per line.", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"pix({', '.join(f'{name}=' for name in _MARKED)}): what the test's holder is, where it is not the usual one",
    )
    config.stash[_hold_key] = _Hold(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  xdist need not be there
    """Under xdist the controller holds the run, so that it outlives the workers but not the session."""
    import msgspec

    # A run without Pix tests must not fail on a read-only file system or a system without these locks.
    with suppress(OSError, ImportError):
        node.workerinput[_WORKER_INPUT] = msgspec.to_builtins(node.config.stash[_hold_key].run)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _hold_key in config.stash:
        config.stash[_hold_key].release()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    pix = item.stash.get(_pix_key, None)
    if report.failed and report.when == "call" and pix is not None:
        report.sections.append((f"what happened to holder {pix.holder_id}", pix.describe_timeline()))
    return report


@pytest.fixture(scope="session")
def _pix_run(request: pytest.FixtureRequest) -> Run:
    """The test run that this process belongs to."""
    import msgspec

    from pixconnect_client.testing.service import Run

    workerinput: Mapping[str, Any] | None = getattr(request.config, "workerinput", None)
    if workerinput is None:
        return request.config.stash[_hold_key].run
    if _WORKER_INPUT not in workerinput:
        pytest.fail("pixconnect: cannot write to pytest's cache folder, which holds the data of the service", pytrace=False)
    return msgspec.convert(workerinput[_WORKER_INPUT], Run)


@pytest.fixture(scope="session")
def pix_sandbox(_pix_run: Run, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The sandbox of the run, started on first use: its ``base_url``, its ``auth_url``, and a factory of holders."""
    from pixconnect_client.testing.sandbox import Sandbox
    from pixconnect_client.testing.service import NoService, find_service

    settings = dict(line.split("=", 1) for line in request.config.getini("pixconnect_settings"))
    found, why = None, ""
    try:
        found = find_service(_pix_run, settings)
    except NoService as error:
        why = str(error)
    if found is None:
        # Raised outside of the handler, so that the report shows it once.
        pytest.fail(f"pixconnect: {why}", pytrace=False)
    sandbox = Sandbox(_pix_run, found)
    yield sandbox
    sandbox.close()


@pytest.fixture
def _pix_turn(pix_sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[_Turn]:
    """Hold the sandbox for the duration of the test."""
    is_alone = not _ALONE.isdisjoint(request.fixturenames)
    with pix_sandbox.hold(is_alone=is_alone):
        yield "alone" if is_alone else "shared"


@pytest.fixture
def pix(_pix_turn: _Turn, pix_sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[Pix]:
    """A holder for this test, with a client, a Pix key, a webhook inbox and simulated payers."""
    # Before 9.2 pytest has no type for it.
    test: pytest.Item = cast("Any", request).node
    mark = test.get_closest_marker("pix")
    made = _open_holder(pix_sandbox, {} if mark is None else dict(mark.kwargs))
    test.stash[_pix_key] = made
    yield made
    made.close()


@pytest.fixture
def pix_clock(_pix_turn: _Turn, pix: Pix) -> Clock:
    """The sandbox clock. The test runs alone; afterwards the clock is reset to real time."""
    from pixconnect_client.testing.sandbox import Clock

    _check_alone(_pix_turn)
    return Clock(pix.client)


@pytest.fixture
def pix_faults(_pix_turn: _Turn, pix: Pix) -> Faults:
    """Faults of the simulated network. The test runs alone; afterwards the faults are removed."""
    from pixconnect_client.testing.sandbox import Faults

    _check_alone(_pix_turn)
    return Faults(pix.client)


def _open_holder(sandbox: Sandbox, wanted: dict[str, Any]) -> Pix:
    from pixconnect_client.errors import InvalidRequest

    unknown = ", ".join(name for name in wanted if name not in _MARKED)
    refused = f"it takes {', '.join(_MARKED)}, and no {unknown}" if unknown else ""
    if not refused:
        try:
            return sandbox.open_holder(**wanted)
        except InvalidRequest as error:
            refused = error.message
    pytest.fail(f"pixconnect: @pytest.mark.pix: {refused}", pytrace=False)


def _check_alone(turn: _Turn) -> None:
    # Requested by name during the test: other tests already run in parallel.
    if turn != "alone":
        pytest.fail("pix_clock and pix_faults must be arguments of the test, or of a fixture of it", pytrace=False)
