"""A shared and exclusive lock on the sandbox over all processes of a run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager

from pixconnect_client.testing import keeper
from pixconnect_client.testing.service import Run


@contextmanager
def hold_sandbox(run: Run, restore: Callable[[], object], *, is_alone: bool) -> Generator[None]:
    """Hold the sandbox, shared or exclusively; wait for conflicting holders.

    Args:
        run: The run whose sandbox it is.
        restore: Undoes the changes of exclusive tests. It is called after each of them, also if it was killed.
    """
    changed = run.path / "changed"
    with (run.own_path / "tests.lock").open("ab") as file:
        # Processes pass the gate one at a time, so that later shared holders cannot starve an exclusive one.
        with keeper.lock(run.own_path / "gate.lock"):
            fcntl.flock(file, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
            if changed.exists():
                # No exclusive holder exists: the test that changed the sandbox was killed, in this run or an earlier one.
                fcntl.flock(file, fcntl.LOCK_EX)
                restore()
                changed.unlink()
                fcntl.flock(file, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
        if not is_alone:
            yield
            return
        changed.touch()
        yield
        restore()
        changed.unlink()
