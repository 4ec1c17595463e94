"""The home: the folder that holds all state of one installation, locked while a supervisor uses it; ``sandbox.json`` in it."""

import errno
import fcntl
import os
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

from pixconnect.platform.config import DEMONSTRATION_FILE

FORMAT = 1  # incremented when older programs cannot use what newer ones write


class HomeError(Exception):
    """The home cannot be used; the message states the reason and the remedy."""


class _Mark(Struct, frozen=True, kw_only=True):
    format: int
    version: str


class Home:
    """A home locked for this object's lifetime; ``HomeError`` if that is not possible."""

    def __init__(self, path: Path, version: str) -> None:
        self.path = path
        try:
            _make(path)
            self._lock = _lock(path)
            self._recognise(version)
        except OSError as error:
            raise HomeError(_explain(path, error)) from error

    def write(self, name: str, content: bytes) -> Path:
        write_private(self.path / name, content)
        return self.path / name

    def read(self, name: str) -> bytes | None:
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def close(self) -> None:
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
    """Write a file that only we can read, completely or not at all."""
    unfinished = path.with_name(path.name + ".unfinished")
    unfinished.unlink(missing_ok=True)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Wait until new and moved entries of the folder are durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def closed_mode(*, has_server: bool = True) -> int:
    """The mode of a home: if we are root, the embedded server runs as another user, who must be able to enter."""
    return 0o711 if has_server and os.geteuid() == 0 else 0o700


def is_disk_full(error: OSError) -> bool:
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _make(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    path.chmod(closed_mode())


def _lock(path: Path) -> BinaryIO:
    # Not emptied before we have the lock: it names the process that holds it.
    lock = (path / "lock").open("a+b")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        owner = lock.read(20).decode(errors="replace").strip()
        lock.close()
        raise HomeError(
            f"another instance (process {owner or 'unknown'}) runs on {path}: stop it, or set PIXCONNECT_HOME to another folder"
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
        f"{path} cannot be written ({error.strerror}): make it writable for this user, or set PIXCONNECT_HOME to another folder"
    )


SANDBOX_FILE = DEMONSTRATION_FILE


class SandboxFile(Struct, frozen=True, kw_only=True):
    """The names of the fields are part of our interface."""

    base_url: str
    auth_url: str
    client_id: str
    client_secret: str
    holder_id: str
    pix_keys: list[str]  # the holder's keys, one of each type
    console_url: str


class Prepared(Struct, frozen=True, kw_only=True):
    """The report of ``prepare`` to ``run``."""

    steps_count: int  # those that were applied now
    sandbox_file: SandboxFile | None  # only in sandbox mode; written once all parts are ready
    console_link_token: str = ""  # signs one browser in to the sandbox's console, once


def read_sandbox_file(home: Path) -> SandboxFile | None:
    """The file of an earlier start; ``None`` if there is none that can be read."""
    try:
        return msgspec.json.decode((home / SANDBOX_FILE).read_bytes(), type=SandboxFile)
    except (OSError, msgspec.DecodeError):
        return None


def encode_sandbox_file(file: SandboxFile) -> bytes:
    return msgspec.json.format(msgspec.json.encode(file)) + b"\n"
