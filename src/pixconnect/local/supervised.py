"""The child's side of being supervised: wait for the start signal, report when ready, end when the parent is gone.

Two pipes, inherited: the parent holds the other end of the *parent* pipe, writes one byte into it when the child may begin
its work (it has imported everything by then), and its end of file means that the parent is gone. Into the *ready* pipe the
child writes once: ``+`` and what it has to say when it is ready, or ``-`` and why it cannot be.
"""

import os
import signal
import threading

from msgspec import Struct

from pixconnect.local import process_death

READY = b"+"
FAILED = b"-"
START = b"g"


class Lifeline(Struct, frozen=True, kw_only=True):
    """What ties a child to its parent; without descriptors nothing does, and nothing is waited for or told."""

    parent_fd: int | None = None
    """The reading end of the parent pipe."""
    ready_fd: int | None = None
    """The writing end of the ready pipe."""

    def wait_for_start(self) -> None:
        """Wait until the parent says go; from then on end at once when it is gone."""
        if self.parent_fd is None:
            return
        process_death.die_with_parent(signal.SIGKILL)
        if os.read(self.parent_fd, 1) != START:
            os._exit(0)
        threading.Thread(target=_end_with, args=(self.parent_fd,), name="lifeline", daemon=True).start()

    def report_ready(self, message: bytes = b"") -> None:
        """Tell the parent that we serve, with what it should know."""
        self._report(READY + message)

    def report_failure(self, reason: str) -> bool:
        """Tell the parent why we cannot start; whether there was a parent to tell."""
        return self._report(FAILED + reason.encode())

    def _report(self, content: bytes) -> bool:
        if self.ready_fd is None:
            return False
        try:
            os.write(self.ready_fd, content)
            os.close(self.ready_fd)
        except OSError:  # told already, or nobody listens
            return False
        return True


def _end_with(parent_fd: int) -> None:
    """End this process when the pipe does; whatever it was at may be interrupted, as by kill -9."""
    while os.read(parent_fd, 64):
        pass
    os._exit(1)
