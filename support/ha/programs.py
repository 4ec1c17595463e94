"""The programs of the machines: the system's etcd and HAProxy, the locked Patroni, the wheel's PostgreSQL; never as root."""

import fcntl
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from msgspec import Struct

from pixconnect.platform.config import POSTGRES_NEWEST
from pixconnect.platform.local.postgres_placement import PostgresUnavailableError, find_programs, find_unprivileged_user
from pixconnect.platform.local.process_death import SystemUser
from support.installation import ROOT

LOCK: Final = ROOT / "requirements" / "ha.txt"
_PACKAGES: Final = ROOT / ".venv" / "ha"
_SYSTEM: Final = ("etcd", "etcdctl", "haproxy", "setpriv")


class Programs(Struct, frozen=True, kw_only=True):
    """Where the programs are, and the user of all of them if the tests run as root, since PostgreSQL refuses to."""

    etcd: str
    haproxy: str
    postgres: Path
    python: str
    packages: Path
    user: SystemUser | None

    def run_as_user(self) -> list[str]:
        """The words before a command that runs as that user and ends with this process."""
        words = ["setpriv", "--pdeathsig", "KILL"]
        if self.user is None:
            return words
        return [*words, f"--reuid={self.user.uid}", f"--regid={self.user.gid}", "--clear-groups"]


def find_missing() -> str | None:
    absent = [name for name in _SYSTEM if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (Debian: etcd-server etcd-client haproxy)"
    try:
        open_programs()
    except (PostgresUnavailableError, LookupError, OSError) as error:
        return str(error)
    return None


def open_programs() -> Programs:
    """Find the programs. Patroni is installed once, from the lock file."""
    user = find_unprivileged_user() if os.geteuid() == 0 else None
    python = next((found for found in (sys.executable, "/usr/bin/python3") if _can_run(found, user)), None)
    if python is None:
        raise LookupError("no Python can be run by the user of the machines: start as another user than root")
    postgres = find_programs(POSTGRES_NEWEST) / "bin"
    if not _can_run(postgres / "postgres", user):
        raise LookupError(f"{postgres} cannot be run by the user of the machines: start as another user than root")
    _install(python)
    return Programs(
        etcd=_path_of("etcd"), haproxy=_path_of("haproxy"), postgres=postgres, python=python, packages=_PACKAGES,
        user=user,
    )  # fmt: skip


def _install(python: str) -> None:
    stamp = _PACKAGES / "stamp"
    wanted = f"{sha256(LOCK.read_bytes()).hexdigest()} {python}"
    with (ROOT / ".venv" / "ha.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes at once: one installs
        if stamp.exists() and stamp.read_text() == wanted:
            return
        shutil.rmtree(_PACKAGES, ignore_errors=True)
        uv = ROOT / ".venv" / "bin" / "uv"
        words = ["pip", "install", "--quiet", "--python", python, "--target", _PACKAGES, "--require-hashes", "-r", LOCK]
        done = subprocess.run([uv, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise LookupError(f"Patroni cannot be installed: {done.stderr[-500:]}")
        stamp.write_text(wanted)


def _path_of(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, name
    return found


def _can_run(program: str | Path, user: SystemUser | None) -> bool:
    words = [program, "--version"]
    try:
        done = subprocess.run(
            words,
            user=None if user is None else user.uid,
            group=None if user is None else user.gid,
            extra_groups=None if user is None else [],
            cwd="/",
            capture_output=True,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0
