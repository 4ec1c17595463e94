"""Fixtures for tests that are paid by Pix: one service for the whole run, and a holder of its own for each test.

It costs nothing until a test asks for one of them: whatever starts or talks to a service is imported then.
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
"""Fixtures of what the sandbox has only once: tests that ask for them run alone."""
_MARKED = ("name", "tax_id", "balance", "scopes")
_Turn = Literal["shared", "alone"]
_WORKER_INPUT = "pixconnect_run"

_hold_key = pytest.StashKey["_Hold"]()
_pix_key = pytest.StashKey["Pix"]()


class _Hold:
    """The run, from when it is needed until the run's first process ends."""

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
            # Beside what the cache keeps itself, which every worker removes under --cache-clear, also while we are here.
            return cache.mkdir("pixconnect").parents[1] / "pixconnect"
        self._temporary = Path(tempfile.mkdtemp(prefix="pixconnect-pytest-"))
        # PostgreSQL's own user must pass through, where we are root.
        self._temporary.chmod(0o711)
        return self._temporary

    def release(self) -> None:
        if self._hold is not None:
            self._hold.release()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("pixconnect_settings", "Settings of the service, a NAME=value each.", type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"pix({', '.join(f'{name}=' for name in _MARKED)}): what the test's holder is, where it is not the usual one",
    )
    config.stash[_hold_key] = _Hold(config)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  xdist need not be there
    """Under xdist the controller holds the run, which so outlives each worker and not the whole."""
    import msgspec

    # A run that never asks for Pix must not fail where nothing can be written, nor on a system that has no such locks.
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
        report.sections.append((f"what happened to holder {pix.holder_id}", pix.tell_timeline()))
    return report


@pytest.fixture(scope="session")
def _pix_run(request: pytest.FixtureRequest) -> Run:
    """The run of tests that this process belongs to."""
    import msgspec

    from pixconnect_client.testing.service import Run

    workerinput: Mapping[str, Any] | None = getattr(request.config, "workerinput", None)
    if workerinput is None:
        return request.config.stash[_hold_key].run
    if _WORKER_INPUT not in workerinput:
        pytest.fail(
            "pixconnect: the service's data go into pytest's cache folder, which cannot be written", pytrace=False
        )
    return msgspec.convert(workerinput[_WORKER_INPUT], Run)


@pytest.fixture(scope="session")
def pix_sandbox(_pix_run: Run, request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The run's sandbox, found or started: its ``base_url``, its ``auth_url``, and what makes holders."""
    from pixconnect_client.testing.sandbox import Sandbox
    from pixconnect_client.testing.service import NoService, find_service

    settings = dict(line.split("=", 1) for line in request.config.getini("pixconnect_settings"))
    found, why = None, ""
    try:
        found = find_service(_pix_run, settings)
    except NoService as error:
        why = str(error)
    if found is None:
        # Out here, so that it is told once, and not also as the cause of itself.
        pytest.fail(f"pixconnect: {why}", pytrace=False)
    sandbox = Sandbox(_pix_run, found)
    yield sandbox
    sandbox.close()


@pytest.fixture
def _pix_turn(pix_sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[_Turn]:
    """The test's turn in the sandbox."""
    is_alone = not _ALONE.isdisjoint(request.fixturenames)
    with pix_sandbox.hold(is_alone=is_alone):
        yield "alone" if is_alone else "shared"


@pytest.fixture
def pix(_pix_turn: _Turn, pix_sandbox: Sandbox, request: pytest.FixtureRequest) -> Iterator[Pix]:
    """A holder of the test's own, with a client, a Pix key, an inbox for webhooks, and people outside who pay."""
    # Before 9.2 pytest has no type for it.
    test: pytest.Item = cast("Any", request).node
    mark = test.get_closest_marker("pix")
    made = _open_holder(pix_sandbox, {} if mark is None else dict(mark.kwargs))
    test.stash[_pix_key] = made
    yield made
    made.close()


@pytest.fixture
def pix_clock(_pix_turn: _Turn, pix: Pix) -> Clock:
    """The sandbox's clock. The test runs alone, and afterwards the clock shows real time."""
    from pixconnect_client.testing.sandbox import Clock

    _check_alone(_pix_turn)
    return Clock(pix.client)


@pytest.fixture
def pix_faults(_pix_turn: _Turn, pix: Pix) -> Faults:
    """What the network does wrong. The test runs alone, and afterwards the network works."""
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
    # Asked for by name in the middle of a test: others run beside it by then.
    if turn != "alone":
        pytest.fail("pix_clock and pix_faults must be arguments of the test, or of a fixture of it", pytrace=False)
