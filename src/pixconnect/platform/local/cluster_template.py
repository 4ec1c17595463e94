"""Copies a finished cluster into a new home: ``initdb`` and the baseline take most of a first start.

Copies of one template have the same tables, with the same numbers. Connections, backups and standbys compare the system
identifier, so each copy gets its own, in its control file and in its write-ahead log. ``EmbeddedPostgres`` also gives it its
own passwords.
"""

import ctypes
import os
import secrets
import shutil
import sys
from functools import reduce
from itertools import accumulate
from pathlib import Path
from struct import Struct

from pixconnect.platform.local.postgres_placement import MIB, WAL_SEGMENT_MIB
from pixconnect.platform.local.process_death import SystemUser

_CONTROL_SIZE_MAX = 512  # PostgreSQL keeps it within one sector of a disk, so that it is never half written

_PIECE_SIZE = 1 << 30

# The control file: the identifier, two versions, the state, a time, and the last checkpoint: where it is, where a recovery
# begins, and its timeline.
_CONTROL = Struct("=QIIIxxxxqQQI")
_SHUT_DOWN = 1
_LOG_IDENTIFIER_AT = 24  # in the first page of each file of the write-ahead log


class DamagedTemplateError(Exception):
    """The template cannot be copied; the message states the reason."""


def copy(template: Path, data: Path, user: SystemUser | None) -> None:
    """Copy a template for the server's user (``None``: our own), with another system identifier.

    That user must not be able to enter the folder around ``data`` yet, where it could put links to files of others.
    Nothing is on the disk before ``sync``.

    Raises:
        DamagedTemplateError: It is in use, or its control file is invalid or fits no file of its write-ahead log.
        OSError: A file cannot be read or written.
    """
    if (template / "postmaster.pid").exists():
        raise DamagedTemplateError("a server uses it")
    _copy_folder(template, data)
    _change_identifier(data)
    if user is not None:
        for folder, _, files in os.walk(data):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                os.chown(path, user.uid, user.gid)


def keep(data: Path, template: Path) -> None:
    """Make a template of the data of a server that was shut down, complete or not at all; every user may read it."""
    unfinished = template.with_name(f"{template.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    # The last checkpoint is in one file of the log, and a server that was shut down reads no other.
    log = _find_log(data, (data / "global" / "pg_control").read_bytes())
    others = [path.name for path in log.parent.iterdir() if path.is_file() and path != log]
    shutil.copytree(data, unfinished, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(*others))
    for folder, _, _ in os.walk(unfinished):
        os.chmod(folder, 0o755)  # noqa: S103 - it contains no secret
    sync(unfinished)
    unfinished.rename(template)


def sync(folder: Path) -> None:
    """Wait until all files on the folder's disk are durable: faster than a thousand files one by one."""
    if sys.platform != "linux":
        os.sync()
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    finally:
        os.close(descriptor)


def _copy_folder(source: Path | str, target: Path | str) -> None:
    # Of two thousand files, most are small or empty: this takes half the time of ``shutil.copytree``.
    os.mkdir(target, 0o700)
    with os.scandir(source) as entries:
        for entry in entries:
            path = f"{target}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                _copy_folder(entry.path, path)
            elif sys.platform != "linux":
                shutil.copyfile(entry.path, path)
            else:
                # ``copy_file_range`` is as fast, but not between two kinds of file systems.
                with open(entry.path, "rb", buffering=0) as reading, open(path, "xb", buffering=0) as writing:
                    while os.sendfile(writing.fileno(), reading.fileno(), None, _PIECE_SIZE):
                        pass


def _change_identifier(data: Path) -> None:
    control = data / "global" / "pg_control"
    content = control.read_bytes()
    checksums = accumulate(content[:_CONTROL_SIZE_MAX], _add_octet, initial=_CHECKSUM_START)
    ends = (end for end, checksum in enumerate(checksums) if content[end : end + 4] == _write_checksum(checksum))
    end = next((end for end in ends if end >= _CONTROL.size), None)
    if end is None:
        raise DamagedTemplateError("its control file is damaged")
    identifier = secrets.randbits(63).to_bytes(8, sys.byteorder)
    with _find_log(data, content).open("r+b") as log:
        log.seek(_LOG_IDENTIFIER_AT)
        if log.read(8) != content[:8]:
            raise DamagedTemplateError("its log is another server's")
        log.seek(_LOG_IDENTIFIER_AT)
        log.write(identifier)
    changed = identifier + content[8:end]
    checksum = _write_checksum(reduce(_add_octet, changed, _CHECKSUM_START))
    control.write_bytes(changed + checksum + content[end + 4 :])


def _find_log(data: Path, control: bytes) -> Path:
    """Return the file of the write-ahead log that has the last checkpoint of a server that was shut down."""
    *_, state, _, checkpoint, _, timeline = _CONTROL.unpack_from(control)
    if state != _SHUT_DOWN:
        raise DamagedTemplateError("its server was not shut down")
    size = WAL_SEGMENT_MIB * MIB
    high, low = divmod(checkpoint // size, (1 << 32) // size)
    return data / "pg_wal" / f"{timeline:08X}{high:08X}{low:08X}"


_CHECKSUM_START = 0xFFFFFFFF


def _add_octet(checksum: int, octet: int) -> int:
    """Continue a CRC-32C, which no module of Python computes."""
    checksum ^= octet
    for _ in range(8):
        checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum


def _write_checksum(checksum: int) -> bytes:
    return (checksum ^ 0xFFFFFFFF).to_bytes(4, sys.byteorder)
