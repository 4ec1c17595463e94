"""The folder that holds all state of one installation: made, locked, and recognised as ours and of our time."""

import errno
import fcntl
import os
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

FORMAT = 1
"""Counts up when an older program could no longer use what a newer one wrote."""


class HomeError(Exception):
    """The home cannot be used; the message says why, and what to do."""


class _Mark(Struct, frozen=True, kw_only=True):
    format: int
    version: str


class Home:
    """A home that is ours alone while this object lives.

    Args:
        path: An absolute path.
        version: Of the program, to be named to an older one.

    Raises:
        HomeError: It cannot be made or written, is in use, or belongs to a newer program.
    """

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        try:
            _make(path)
            self._lock = _lock(path)
            self._recognise(version)
        except OSError as error:
            raise HomeError(_explain(path, error)) from error

    def write(self, name: str, content: bytes) -> Path:
        """Write a file that only we can read, wholly or not at all."""
        write_private(self.path / name, content)
        return self.path / name

    def read(self, name: str) -> bytes | None:
        """What ``write`` wrote under that name."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
        """Let others have it."""
        self._lock.close()

    def _recognise(self, version: str) -> None:
        found = self.read("home.json")
        if found is not None:
            try:
                mark = msgspec.json.decode(found, type=_Mark)
            except msgspec.DecodeError:
                self.close()
                raise HomeError(f"{self.path / 'home.json'} is damaged: restore it from a backup") from None
            if mark.format > FORMAT:
                self.close()
                raise HomeError(
                    f"{self.path} was written by pixconnect {mark.version}, which is newer: run that version, "
                    "or set PIXCONNECT_HOME to another folder"
                )
        mark = _Mark(format=FORMAT, version=version)
        if found != (content := msgspec.json.encode(mark)):
            self.write("home.json", content)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only we can read, wholly or not at all."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until what was made and moved in the folder is on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_disk_full(error: OSError) -> bool:
    """Whether there was no room, on the disk or in somebody's share of it."""
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _make(path: Path) -> None:
    """Make the folder. As root others may pass through it, since the database's own user must reach its data there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(0o711 if os.geteuid() == 0 else 0o700)


def _lock(path: Path) -> BinaryIO:
    lock = (path / "lock").open("a+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read(20).decode(errors="replace").strip()
        lock.close()
        raise HomeError(
            f"another instance (process {owner or 'unknown'}) runs on {path}: "
            "stop it, or set PIXCONNECT_HOME to another folder"
        ) from None
    lock.truncate(0)
    lock.write(str(os.getpid()).encode())
    lock.flush()
    return lock


def _explain(path: Path, error: OSError) -> str:
    if is_disk_full(error):
        return f"the disk of {path} is full: make room and start again"
    if isinstance(error, FileExistsError | NotADirectoryError):
        return f"{error.filename or path} is not a folder: set PIXCONNECT_HOME to another folder"
    return (
        f"{path} cannot be written ({error.strerror}): "
        "make it writable for this user, or set PIXCONNECT_HOME to another folder"
    )
