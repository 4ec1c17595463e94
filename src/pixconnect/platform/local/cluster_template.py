"""Copies a finished cluster into a new home: ``initdb`` and the baseline take most of a first start.

Copies of one template have the same tables, with the same numbers. Connections, backups and standbys compare the system
identifier, so each copy gets its own. ``EmbeddedPostgres`` also gives it its own passwords.
"""

import ctypes
import os
import secrets
import shutil
import sys
from functools import reduce
from itertools import accumulate
from pathlib import Path

from pixconnect.platform.local.process_death import SystemUser

_CONTROL_SIZE_MAX = 512
"""PostgreSQL keeps it within one sector of a disk, so that it is never half written."""

_PIECE_SIZE = 1 << 30


class DamagedTemplateError(Exception):
    """The template cannot be copied; the message states the reason."""


def copy(template: Path, data: Path, user: SystemUser | None) -> None:
    """Copy a template for the server's user (``None``: our own), with another system identifier.

    That user must not be able to enter the folder around ``data`` yet, where it could put links to files of others.
    Its write-ahead log still has the former one: ``pg_resetwal`` must make a new one. It also refuses a template that was not
    shut down. Nothing is on the disk before ``sync``.

    Raises:
        DamagedTemplateError: It has no valid control file.
        OSError: A file cannot be read or written.
    """
    _copy_folder(template, data)
    _change_identifier(data / "global" / "pg_control")
    if user is not None:
        for folder, _, files in os.walk(data):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                os.chown(path, user.uid, user.gid)


def keep(data: Path, template: Path) -> None:
    """Make a template of the data of a server that was shut down, complete or not at all; every user may read it."""
    unfinished = template.with_name(f"{template.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    # Each copy gets a new write-ahead log.
    log = (data / "pg_wal").iterdir()
    segments = [path.name for path in log if path.is_file()]
    shutil.copytree(data, unfinished, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(*segments))
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


def _change_identifier(control: Path) -> None:
    content = control.read_bytes()
    checksums = accumulate(content[:_CONTROL_SIZE_MAX], _add_octet, initial=_CHECKSUM_START)
    ends = (end for end, checksum in enumerate(checksums) if content[end : end + 4] == _write_checksum(checksum))
    end = next((end for end in ends if end >= 8), None)
    if end is None:
        raise DamagedTemplateError("its control file is damaged")
    changed = secrets.randbits(63).to_bytes(8, sys.byteorder) + content[8:end]
    checksum = _write_checksum(reduce(_add_octet, changed, _CHECKSUM_START))
    control.write_bytes(changed + checksum + content[end + 4 :])


_CHECKSUM_START = 0xFFFFFFFF


def _add_octet(checksum: int, octet: int) -> int:
    """Continue a CRC-32C, which no module of Python computes."""
    checksum ^= octet
    for _ in range(8):
        checksum = checksum >> 1 ^ (0x82F63B78 if checksum & 1 else 0)
    return checksum


def _write_checksum(checksum: int) -> bytes:
    return (checksum ^ 0xFFFFFFFF).to_bytes(4, sys.byteorder)
