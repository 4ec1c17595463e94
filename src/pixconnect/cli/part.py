"""``python -m pixconnect.cli.part``: one part of an installation, started by ``run`` and tied to it.

People have verbs for the same (see ``main``). Five of these start at once on a machine that may have two cores, so this
file imports nothing that a part does not need.
"""

import gc
import sys
from collections.abc import Sequence
from socket import socket

from msgspec import Struct

from pixconnect.cli import failures
from pixconnect.foundation.exception_text import hide_rows_in_tracebacks
from pixconnect.local.supervised import Lifeline


class _Order(Struct, frozen=True, kw_only=True):
    part: str
    lifeline: Lifeline
    sockets: Sequence[socket]


def main(words: Sequence[str]) -> None:
    """Be a part: ``<part> --parent-fd=<n> --ready-fd=<n> [--socket-fd=<n>...]``."""
    hide_rows_in_tracebacks()
    order = _read(words)
    with failures.reported_to_supervisor(order.lifeline):
        # Nothing that is imported becomes garbage: looking for some takes a quarter of the time, now and ever after.
        gc.disable()
        from pixconnect.cli import prepare, processes  # noqa: PLC0415 - see above

        gc.freeze()
        gc.enable()
        if order.part == "prepare":
            prepare.prepare_under(order.lifeline)
        elif order.part == "serve":
            processes.serve_on(order.sockets, order.lifeline)
        elif order.part == "work":
            processes.work_under(order.lifeline)
        else:
            processes.sandbox_under(order.lifeline)


def command(part: str) -> list[str]:
    """What starts a part; whoever starts it adds its descriptors."""
    return [sys.executable, "-P", "-m", "pixconnect.cli.part", part]


def _read(words: Sequence[str]) -> _Order:
    part, *options = words
    found: dict[str, list[int]] = {"parent": [], "ready": [], "socket": []}
    for option in options:
        name, _, descriptor = option.removeprefix("--").partition("-fd=")
        found[name].append(int(descriptor))
    [parent_fd], [ready_fd] = found["parent"], found["ready"]
    return _Order(
        part=part,
        lifeline=Lifeline(parent_fd=parent_fd, ready_fd=ready_fd),
        sockets=[socket(fileno=descriptor) for descriptor in found["socket"]],
    )


if __name__ == "__main__":
    main(sys.argv[1:])
