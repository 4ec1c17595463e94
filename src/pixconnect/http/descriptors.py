"""Open files: as many as the machine allows this process, and how many of them callers may have."""

import resource

from pixconnect.http.limits import CONNECTIONS_MAX

OTHERS = 384
"""Files that are no callers' connections: what we fetch from others (128 at once, 64 of them looking names up over two sockets)
and keep open (128), logs, the event loop, libraries."""


def raise_limit() -> int:
    """Let this process open as many files as it may ever, and say how many these are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for wanted in (hard, 10_240):  # the second is the most on a Mac, whatever it says
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        return _count(wanted)
    return _count(soft)


def share_out(files_max: int, database_connections_max: int) -> int:
    """How many connections callers may have, so that files are left for the database, the log and what we fetch."""
    return min(CONNECTIONS_MAX, max(files_max - database_connections_max - OTHERS, files_max // 2))


def _count(limit: int) -> int:
    return 2**31 if limit == resource.RLIM_INFINITY else limit
