"""Virtual time for the running event loop: it stands still while the loop has work, then jumps to the next timer.

So delays in a test do not depend on the load of the machine, and cost no real time.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest


class LoopTime:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def read(self) -> float:
        return self.now_s


@contextmanager
def own_loop_time() -> Iterator[LoopTime]:
    """Give the running loop virtual time; only for tests whose loop waits for nothing but timers."""
    loop = cast(Any, asyncio.get_running_loop())
    time, select = LoopTime(loop.time()), loop._selector.select

    def select_at_once(timeout_s: float | None) -> object:
        time.now_s += timeout_s or 0
        return select(timeout_s and 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "time", time.read)
        patch.setattr(loop._selector, "select", select_at_once)
        yield time
