import asyncio
import signal
import subprocess

import pytest

from pixconnect.foundation import process_death


async def test_the_watcher_from_outside_ends_a_process_when_we_are_gone() -> None:
    """How it is done where the kernel does not tell; closing the pipe is what our death would do."""
    process = subprocess.Popen(["/bin/sleep", "60"])
    watcher = process_death.watch_from_outside(process.pid, signal.SIGINT)
    watcher.communicate()
    async with asyncio.timeout(5):
        assert process_death.describe_exit(await process_death.exit_status(process)) == "SIGINT"


async def test_a_process_that_ended_before_is_seen_at_once() -> None:
    process = subprocess.Popen(["/bin/sh", "-c", "exit 3"])
    await asyncio.sleep(0.2)
    async with asyncio.timeout(1):
        assert process_death.describe_exit(await process_death.exit_status(process)) == "exit status 3"


async def test_where_the_kernel_does_not_tell_the_end_is_still_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.pidfd_open")
    process = subprocess.Popen(["/bin/sh", "-c", "sleep 0.1; exit 4"])
    async with asyncio.timeout(5):
        assert await process_death.exit_status(process) == 4
