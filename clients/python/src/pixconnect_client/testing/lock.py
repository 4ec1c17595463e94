"""Tests that share the sandbox, and tests that need it alone: a lock over all processes of a run."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Generator
from contextlib import contextmanager

from pixconnect_client.testing import keeper
from pixconnect_client.testing.service import Run


@contextmanager
def hold_sandbox(run: Run, restore: Callable[[], object], *, is_alone: bool) -> Generator[None]:
    """Hold the sandbox with others, or alone; waits for those who are in the way.

    Args:
        run: Whose sandbox it is.
        restore: Undoes what tests that are alone may do to the sandbox. It is called after each, also if that was killed.
    """
    changed = run.path / "changed"
    with (run.own_path / "tests.lock").open("ab") as file:
        # Through the gate one at a time: who waits to be alone keeps those out who come later, and is not overtaken for ever.
        with keeper.lock(run.own_path / "gate.lock"):
            fcntl.flock(file, fcntl.LOCK_EX if is_alone else fcntl.LOCK_SH)
            if changed.exists():
                # Nobody is alone any more, so whoever changed it was killed, in this run or in an earlier one.
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
