"""``run``: everything on one machine, from nothing to serving, until interrupted."""

import asyncio
import dataclasses
import os
import shlex
import signal
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from pixconnect import __version__
from pixconnect.doors.cli import live_mode, terminal
from pixconnect.doors.cli.settings import RUNNING_FILE, Running, make_secret_files, read_listeners
from pixconnect.platform.config import Settings
from pixconnect.platform.environment import read_settings
from pixconnect.platform.local import process_death
from pixconnect.platform.local.child_process import give_back_memory
from pixconnect.platform.local.fork_server import ForkServer, Started
from pixconnect.platform.local.home import SANDBOX_FILE, Home, Prepared, SandboxFile, encode_sandbox_file
from pixconnect.platform.local.supervisor import Supervisor
from pixconnect.running import part
from pixconnect.running.stack import Stack


class _Stopped(Exception):  # noqa: N818 not an error: the user pressed Ctrl-C while the parts were starting
    pass


def run(faces: Sequence[str] = (), *, end_with_parent: bool) -> None:
    """Run until interrupted; ``faces`` get their own listeners beside those of the settings."""
    run_by(part.start_forks(), faces, end_with_parent=end_with_parent)


def run_by(forks: Started | None, faces: Sequence[str] = (), *, end_with_parent: bool) -> None:
    """As ``run``; the process that forks the parts was started before."""
    with closing(ForkServer(part.start_forks, forks)) as fork_server:
        _supervise(fork_server, faces, end_with_parent=end_with_parent)


def _supervise(fork_server: ForkServer, faces: Sequence[str], *, end_with_parent: bool) -> None:
    # `make run` starts it so: when make is killed, no process may remain.
    if end_with_parent:
        process_death.die_with_parent(signal.SIGTERM)
    settings = read_settings()
    settings = dataclasses.replace(settings, faces=",".join([*filter(None, [settings.faces]), *faces]))
    read_listeners(settings)
    live_mode.refuse_unsafe_live(settings)
    live_mode.complain_of_open(settings)
    for risk in live_mode.list_risks(settings):
        terminal.complain(risk)
    _complain_of_root(settings)
    started_at = time.monotonic()
    home = Home(settings.home_path, __version__)
    try:
        terminal.print_line(f"pixconnect {__version__}, home {home.path}")
        if settings.tls_port or settings.faces:
            # It needs cryptography, which takes longer to import than all the rest of this process.
            from pixconnect.running import tls  # noqa: PLC0415

            settings = tls.with_files(settings)
        with suppress(_Stopped):
            asyncio.run(_run(settings, home, started_at, fork_server))
    finally:
        home.close()


def _complain_of_root(settings: Settings) -> None:
    if settings.mode == "live" and not settings.database_url and os.geteuid() == 0:
        terminal.complain(
            "as root the embedded PostgreSQL runs as nobody, and any other process of that user can read live "
            "money: start it as a dedicated user, or set DATABASE_URL"
        )


async def _run(settings: Settings, home: Home, started_at: float, fork_server: ForkServer) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for stop_signal in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(stop_signal, stop.set)

    def report(line: str) -> None:
        terminal.print_line(f"  {time.monotonic() - started_at:5.2f} s  {line}")

    stack = Stack(settings, home, report, fork_server)
    try:
        prepared = await _unless_stopped(stack.start(), stop)
        _write_files(settings, stack.settings, home, prepared.sandbox_file)
        _announce(stack.settings, prepared, time.monotonic() - started_at)
        supervisor = Supervisor(report)
        stack.watch(supervisor)
        give_back_memory()
        await supervisor.run_until(stop)
    finally:
        # First of all: a verb must not find a service that is about to stop.
        home.remove(RUNNING_FILE)
        report("stopping")
        await stack.stop()
        report("stopped")


async def _unless_stopped(start: Coroutine[Any, Any, Prepared], stop: asyncio.Event) -> Prepared:
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            raise _Stopped
        return starting.result()
    finally:
        for task in (starting, stopping):
            task.cancel()
        # A cancelled start has processes to end; it was interrupted, so its error no longer matters.
        with suppress(asyncio.CancelledError, Exception):
            await starting


def _write_files(given: Settings, settings: Settings, home: Home, file: SandboxFile | None) -> None:
    """Write the files by which operators' verbs and callers' scripts find us; only ``settings`` has the stack's additions."""
    running = Running(
        mode=settings.mode,
        base_url=settings.public_base_url,
        auth_url=settings.public_auth_url,
        # An address from the settings may contain a password: verbs read it where the other secrets are.
        database_url="" if given.database_url else settings.database_url,
        owner_database_url="" if given.database_url else settings.owner_database_url,
        console_database_url="" if given.database_url else settings.console_database_url,
        rail_url=settings.rail_url,
        faces=settings.faces,
        secret_files=make_secret_files(given),
    )
    home.write(RUNNING_FILE, msgspec.json.encode(running))
    if file is not None:
        home.write(SANDBOX_FILE, encode_sandbox_file(file))


def _announce(settings: Settings, prepared: Prepared, seconds: float) -> None:
    """Print all addresses and, in the sandbox, a first charge to paste."""
    file = prepared.sandbox_file
    terminal.print_line(f"Ready in {seconds:.1f} s.\n")
    terminal.print_line(f"  API            {settings.public_base_url}")
    if settings.tls_port:
        terminal.print_line(f"  API by TLS     port {settings.tls_port}; its authority is in {settings.tls_authority_file}")
    for listener in read_listeners(settings):
        terminal.print_line(
            f"  face {listener.face:<10} https://localhost:{listener.port} (pixconnect face show {listener.face})"
        )
    if settings.documentation == "on":
        terminal.print_line(f"  documentation  {settings.public_base_url}/docs")
    if prepared.console_link_token:
        terminal.print_line(f"  console        {settings.public_console_url}/enter?token={prepared.console_link_token} (once)")
    elif settings.console_base_url:
        terminal.print_line(f"  console        {settings.public_console_url}")
    if settings.metrics_port:
        port = settings.metrics_port
        terminal.print_line(f"  metrics        http://127.0.0.1:{port}/metrics (worker), from {port + 1} on (API processes)")
    if file is not None:
        terminal.print_line(f"  client_id      {file.client_id}")
        terminal.print_line(f"  client_secret  {file.client_secret}")
        terminal.print_line(f"  holder_id      {file.holder_id}")
        terminal.print_line(f"  Pix keys       {', '.join(file.pix_keys)}")
        terminal.print_line(f"  all of this    {settings.home_path / SANDBOX_FILE}")
    terminal.print_line("\nTo have the verbs in another terminal, paste there (`pixconnect` alone names the next step):\n")
    terminal.print_line(name_program(settings.home_path))
    if settings.mode == "live":
        terminal.print_line("\nNo account exists yet unless you created one: `pixconnect holder create`, then `client create`.")
    if file is not None:
        terminal.print_line("\nA first charge of R$ 10,00: `pixconnect charge create 1000`, and `pixconnect pay ID` pays it.")
        terminal.print_line("The same by HTTP, to paste into another terminal:\n")
        terminal.print_line(_first_charge(file))
    terminal.print_line("\nCtrl-C stops.")


def name_program(home: Path) -> str:
    """Return the lines that make the verbs available, with this home: in a shell, and in a script, which ignores aliases."""
    found = Path(sys.argv[0]).absolute()
    of_home = f"PIXCONNECT_HOME={shlex.quote(str(home))}"
    # Started as a module, there is no program of that name.
    is_program = found.name == "pixconnect"
    program = [str(found)] if is_program else [sys.executable, "-P", "-m", "pixconnect"]
    alias = "alias pixconnect=" + shlex.quote(f"{of_home} {shlex.join(program)}")
    in_script = f'In a script:\n\nexport {of_home}\nexport PATH={shlex.quote(str(found.parent))}:"$PATH"'
    return f"{alias}\n\n{in_script}" if is_program else alias


def _first_charge(file: SandboxFile) -> str:
    body = msgspec.json.encode({"amount": 1000, "key": file.pix_keys[0]}).decode()
    return rf"""TOKEN=$(curl -s {file.auth_url}/v1/iam/users/login \
  -d grant_type=client_credentials -d client_id={file.client_id} \
  -d client_secret={file.client_secret} |
  sed 's/.*"access_token":"\([^"]*\).*/\1/')
curl -s -w "\n" {file.base_url}/v1/connect/charge \
  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \
  -d '{body}'"""
