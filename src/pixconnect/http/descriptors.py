"""Raises this process's limit of open files, and decides how many of them callers' connections may use."""

import resource

from pixconnect.http.limits import CONNECTIONS_MAX

# Files that are not callers' connections: 128 requests of ours at once, 64 of which look up names over two sockets, 128 kept
# connections, 32 handles for each of three sockets that listen (``server.ACCEPTED_AT_ONCE``), logs, the event loop, libraries.
OTHERS = 512


def raise_limit() -> int:
    """Raise the limit as far as the system allows and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS accepts 10,240 at most, whatever hard limit it tells.
    for wanted in (hard, 10_240):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):
            continue
        return _count(wanted)
    return _count(soft)


def share_out(files_max: int, database_connections_max: int) -> int:
    """How many connections callers may have."""
    # Where files are few, callers still get half: requests that need no other file can be answered.
    return min(CONNECTIONS_MAX, max(files_max - database_connections_max - OTHERS, files_max // 2))


def _count(limit: int) -> int:
    return 2**31 if limit == resource.RLIM_INFINITY else limit
