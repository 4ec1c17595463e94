"""The service of a test run. The first process that needs it starts it; the others find it.

A run takes a folder that no other run uses at the time. Its contents::

    slot.lock       held by the run's first process, so that another run takes another folder
    run-<id>/       of this run only
      run.lock      held by its first process; the keeper ends the service when it is released
      tests.lock    see ``lock.py``
    start.lock      held while a process starts the keeper
    keeper.lock     held by the keeper
    service.json    address of the service, when it is ready
    service.log     its output
    home/           its data, kept so that the next run starts fast
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from pixconnect_client.testing import keeper

COMMAND_VARIABLE = "PIXCONNECT_COMMAND"
HOLDERS_KEPT_MAX = 50_000
"""The next run deletes a home with more holders than this."""

_SLOTS_MAX = 1_000
_OWN_VARIABLES = ("PORT", "DATABASE_URL")


class NoService(Exception):  # noqa: N818  it is what there is not
    """The service could not be started. The message gives the reason and what to do."""


class Run(Struct, frozen=True, kw_only=True):
    """A test run, as seen by its processes."""

    id: str
    folder: str

    @property
    def path(self) -> Path:
        return Path(self.folder)

    @property
    def own_path(self) -> Path:
        """The folder of this run only, separate even from a killed run that is still stopping."""
        return self.path / f"run-{self.id}"


class Found(Struct, frozen=True, kw_only=True):
    """The address of the service and a client that may create holders, or the reason why there is none."""

    run: str
    failed: str = ""
    base_url: str = ""
    auth_url: str = ""
    client_id: str = ""
    client_secret: str = ""


class RunHold:
    """Begin a run, which lasts until it is released or this process ends.

    Args:
        folder: The parent folder of all runs.
    """

    def __init__(self, folder: Path) -> None:
        slot, self._slot_lock = _take_slot(folder)
        self.run = Run(id=f"{os.getpid()}-{secrets.token_hex(4)}", folder=str(slot))
        for left_behind in slot.glob("run-*"):
            shutil.rmtree(left_behind, ignore_errors=True)
        self.run.own_path.mkdir()
        self._run_lock = keeper.lock(self.run.own_path / "run.lock")

    def release(self) -> None:
        """End the run; return when its service has stopped."""
        self._run_lock.close()
        # Waiting for the keeper's lock means waiting for its end.
        if (self.run.path / "keeper.lock").exists():
            keeper.lock(self.run.path / "keeper.lock").close()
        shutil.rmtree(self.run.own_path, ignore_errors=True)
        self._slot_lock.close()


def find_service(run: Run, settings: Mapping[str, str]) -> Found:
    """Return the service of the run; start it if needed.

    Args:
        run: The run, whose holding process must be alive.
        settings: Settings of the service, as environment variables.

    Raises:
        NoService: It is not installed or does not start.
    """
    # One process starts it; the others wait here until it is ready.
    with keeper.lock(run.path / "start.lock") as others:
        found = _read_notice(run)
        if found is None:
            _start_keeper(run, settings, others.fileno())
    if found is None:
        with keeper.lock(run.path / "start.lock"):
            found = _read_notice(run)
    if found is None or found.failed:
        reason = "it has ended" if found is None else found.failed
        raise NoService(f"the service does not run ({run.path / 'service.log'}):\n{reason}")
    return found


def find_command() -> list[str]:
    """Return the command of the service: ``PIXCONNECT_COMMAND``, or ``pixconnect`` beside this Python or on the path.

    Raises:
        NoService: It was not found.
    """
    named = shlex.split(os.environ.get(COMMAND_VARIABLE, ""))
    if named:
        if shutil.which(named[0]) is None:
            raise NoService(f"{COMMAND_VARIABLE}: there is no program {named[0]}")
        return named
    found = shutil.which("pixconnect", path=str(Path(sys.executable).parent)) or shutil.which("pixconnect")
    if found is None:
        raise NoService(
            f"there is no pixconnect on the path: set {COMMAND_VARIABLE} to what starts it, "
            "such as /opt/pixconnect/.venv/bin/pixconnect"
        )
    return [found]


def wear_out(run: Run) -> None:
    """Mark the home for deletion by the next run in this folder."""
    (run.path / "worn").touch()


def _take_slot(folder: Path) -> tuple[Path, BinaryIO]:
    for number in range(_SLOTS_MAX):
        slot = folder / f"slot-{number}"
        slot.mkdir(parents=True, exist_ok=True)
        file = (slot / "slot.lock").open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
        else:
            return slot, file
    raise NoService(f"{folder}: all {_SLOTS_MAX} folders are in use")


def _read_notice(run: Run) -> Found | None:
    try:
        found = msgspec.json.decode((run.path / "service.json").read_bytes(), type=Found)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    # Remove leftovers of a killed run.
    return found if found.run == run.id else None


def _start_keeper(run: Run, settings: Mapping[str, str], others: int) -> None:
    # Leave out the user's own settings, such as mode, database and home.
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("PIXCONNECT_") and name not in _OWN_VARIABLES
    }
    environment |= {"PORT": "0", "PIXCONNECT_API_PROCESSES_COUNT": "1", **settings}
    # The keeper continues after this call.
    subprocess.run(
        [sys.executable, "-I", keeper.__file__, run.folder, run.id, str(others), *find_command()],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # The keeper shares the lock until the service is ready, in case this process is killed.
        pass_fds=(others,),
        check=True,
    )
