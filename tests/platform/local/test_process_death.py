import asyncio
import inspect
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pixconnect.platform.local import process_death
from support.killed_process import TARGETS, find_owner


@contextmanager
def started(*command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended after the test in any case."""
    with subprocess.Popen(command) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_the_watcher_from_outside_ends_a_process_when_we_are_gone() -> None:
    """The method without the kernel's help; closing the pipe has the effect of our death."""
    with started("/bin/sleep", "600") as process:
        watcher = process_death.watch_from_outside(process.pid, signal.SIGTERM)  # SIGINT is ignored below `make test &`
        watcher.communicate()
        async with asyncio.timeout(60):
            assert process_death.describe_exit(await process_death.exit_status(process)) == "SIGTERM"


async def test_a_process_that_ended_before_is_seen_at_once() -> None:
    with started("/bin/sh", "-c", "exit 3") as process:
        await asyncio.sleep(0.2)
        async with asyncio.timeout(60):
            assert process_death.describe_exit(await process_death.exit_status(process)) == "exit status 3"


async def test_where_the_kernel_does_not_tell_the_end_is_still_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open")
    with started("/bin/sh", "-c", "sleep 0.1; exit 4") as process:
        async with asyncio.timeout(60):
            assert await process_death.exit_status(process) == 4


@pytest.mark.parametrize("target", sorted(TARGETS))
def test_a_process_can_be_killed_at_a_function_that_is_there(target: str) -> None:
    owner, attribute = find_owner(target)
    call = getattr(owner, attribute)
    assert inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(type(call).__call__)
