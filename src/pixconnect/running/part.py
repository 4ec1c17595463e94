"""``python -m pixconnect.running.part``: one process of an installation, which ``run`` starts and which ends with it.

Operators have verbs for the same (see ``main``). On Linux the parts are forked from one called ``forks``; elsewhere several of
them start at once on a machine that may have two cores, so this file imports nothing that a part does not need.

The supervisor imports it to start ``forks`` before anything else, so its first imports are few.
"""

import gc
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from socket import AF_UNIX, SOCK_SEQPACKET, socket, socketpair

# Parts inherit these besides the settings, which they get resolved.
_INHERITED = ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TMPDIR", "NO_COLOR", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
_ROOM = " " * 160  # a part writes its own words over those of the process that it is forked from, and they are longer


def main(words: Sequence[str]) -> None:
    """Run a part: ``<part> --parent-fd=<n> --ready-fd=<n> [--socket-fd=<n>...]``."""
    with lean_imports():
        from pixconnect.doors.cli import failures  # noqa: PLC0415 - see above
        from pixconnect.platform.local.child_process import Lifeline  # noqa: PLC0415 - see above
        from pixconnect.platform.outgoing_text import hide_rows_in_tracebacks  # noqa: PLC0415 - see above

    hide_rows_in_tracebacks()
    if words[0] == "forks":
        words = _fork(words[1])
    name, parent_fd, ready_fd, sockets = _read(words)
    lifeline = Lifeline(parent_fd=parent_fd, ready_fd=ready_fd)
    with failures.reported_to_supervisor(lifeline):
        if name == "prepare":
            with lean_imports():
                from pixconnect.running import prepare  # noqa: PLC0415 - see above

            prepare.prepare_under(lifeline)
            return
        with lean_imports():
            from pixconnect.running import processes  # noqa: PLC0415 - see above

        if name == "serve":
            processes.serve_on(sockets, lifeline)
        elif name == "work":
            processes.work_under(lifeline)
        elif name == "console":
            # No other process has its toolkit and templates.
            with lean_imports():
                from pixconnect.running import console  # noqa: PLC0415 - see above

            console.serve_on(sockets, lifeline)
        else:
            processes.sandbox_under(lifeline)


@contextmanager
def lean_imports() -> Generator[None]:
    """Import only the modules that a part needs."""
    # Modules never become garbage, so the collector need not scan them: not while they are imported, where it takes a quarter
    # of the time, and not afterwards, which freeze() prevents.
    gc.disable()
    # structlog imports rich if it is installed, for output that no part prints: 4 MiB of each process. This makes that fail.
    sys.modules["rich"] = None  # type: ignore[assignment]  importlib knows None
    yield
    gc.freeze()
    gc.enable()


def command(part: str) -> list[str]:
    """The command that starts a part; the caller appends the descriptors."""
    return [sys.executable, "-P", "-m", "pixconnect.running.part", part]


def inherited_environment() -> dict[str, str]:
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}  # noqa: TID251 - handed on unread


def start_forks() -> tuple[subprocess.Popen[bytes], socket] | None:
    """Start what parts are forked from: its imports take longer than everything else in a start.

    ``ForkServer`` uses the process, and the socket to it. Only Linux has one.
    """
    if sys.platform != "linux":
        return None
    ours, its = socketpair(AF_UNIX, SOCK_SEQPACKET)
    ours.settimeout(0)
    with its:
        process = subprocess.Popen(  # noqa: S603 - our own words only
            [*command("forks"), f"--control-fd={its.fileno()}", _ROOM],
            stdin=subprocess.DEVNULL,
            env=inherited_environment(),
            pass_fds=[its.fileno()],
            start_new_session=True,
        )
    return process, ours


def _fork(control: str) -> list[str]:
    """Be the fork server; returns in each part that is forked."""
    control_fd = int(control.removeprefix("--control-fd="))
    with lean_imports():
        from pixconnect.platform.adapters import outgoing_http  # noqa: PLC0415 - see above
        from pixconnect.platform.local import fork_server  # noqa: PLC0415 - see above

        import_module("pixconnect.running.prepare")
        # Reading the system's authorities takes longer than most imports.
        outgoing_http.trust_system()
        # The preparation, which the others wait for: it works while the rest is imported.
        if (words := fork_server.fork_if_asked(control_fd)) is not None:
            return words
        import_module("pixconnect.running.processes")
        from pixconnect.assembly.operations import list_routes  # noqa: PLC0415 - see above
        from pixconnect.doors.api.prepared import prepare  # noqa: PLC0415 - see above

        # Otherwise each API process would do it, and have it in memory of its own.
        for operation in list_routes(is_sandbox=True):
            prepare(operation)
    return fork_server.wait_for_part(control_fd)


def _read(words: Sequence[str]) -> tuple[str, int, int, list[socket]]:
    """Return the part's name, the descriptors of its lifeline, and its sockets."""
    part, *options = words
    found: dict[str, list[int]] = {"parent": [], "ready": [], "socket": []}
    for option in options:
        name, _, descriptor = option.removeprefix("--").partition("-fd=")
        found[name].append(int(descriptor))
    [parent_fd], [ready_fd] = found["parent"], found["ready"]
    return part, parent_fd, ready_fd, [socket(fileno=descriptor) for descriptor in found["socket"]]


if __name__ == "__main__":
    main(sys.argv[1:])
