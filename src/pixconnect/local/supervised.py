"""The child's side of supervision: wait for the start signal, report when ready, end when the parent is gone.

The child inherits two pipes. The parent writes one byte into the *parent* pipe when the child may begin its work; the
end of that pipe means that the parent is gone. The child writes once into the *ready* pipe: ``+`` and a message when it
is ready, ``-`` and the reason why it cannot start, or ``~`` and the reason if the database is at fault. A part that
ends because it has lost the database ends with a status of its own.
"""

import os
import signal
import threading
from typing import Final

from msgspec import Struct

from pixconnect.local import process_death

READY = b"+"
FAILED = b"-"
WAITING = b"~"
START = b"g"
DATABASE_AWAY_STATUS: Final = 75
"""``EX_TEMPFAIL`` of ``sysexits.h``: nothing is wrong with the part."""


class Lifeline(Struct, frozen=True, kw_only=True):
    """The child's ends of both pipes; a process without a parent has none, waits for nothing and reports nothing."""

    parent_fd: int | None = None
    ready_fd: int | None = None

    def wait_for_start(self) -> None:
        """Wait for the start signal; from then on this process ends when its parent does."""
        if self.parent_fd is None:
            return
        process_death.die_with_parent(signal.SIGKILL)
        if os.read(self.parent_fd, 1) != START:
            os._exit(0)
        threading.Thread(target=_end_with, args=(self.parent_fd,), name="lifeline", daemon=True).start()

    def report_ready(self, message: bytes = b"") -> bool:
        """Tell the parent; false if there is nobody to tell."""
        return self._report(READY + message)

    def report_failure(self, reason: str) -> bool:
        """Tell the parent why we cannot start; false if there is nobody to tell."""
        return self._report(FAILED + reason.encode())

    def report_database_away(self, reason: str) -> bool:
        """The same where only the database keeps us from starting."""
        return self._report(WAITING + reason.encode())

    def _report(self, content: bytes) -> bool:
        if self.ready_fd is None:
            return False
        try:
            os.write(self.ready_fd, content)
            os.close(self.ready_fd)
        # We have reported already, or the parent has gone.
        except OSError:
            return False
        return True


def _end_with(parent_fd: int) -> None:
    # Nothing is tidied up: whatever is interrupted here must survive kill -9 as well.
    while os.read(parent_fd, 64):
        pass
    os._exit(1)
