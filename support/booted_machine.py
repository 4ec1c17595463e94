"""A small Debian with systemd as its first process, in a container of systemd-nspawn on the host's network.

It shares the host's Python and the program under test, installed in /opt as an operator would.
"""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support.installation import ROOT, descendants
from support.waiting import wait_until

PROGRAM: Final = "/opt/pixconnect/.venv/bin/pixconnect"
_NEEDED: Final = ("mmdebstrap", "systemd-nspawn", "nsenter")
_PACKAGES: Final = "systemd,systemd-sysv,dbus,python3,ca-certificates,tzdata"


class BootedMachine:
    """A running machine; ``first_pid`` is its systemd's id on the host."""

    def __init__(self, root: Path, first_pid: int) -> None:
        self.root = root
        self._first_pid = first_pid

    def run(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["nsenter", f"--target={self._first_pid}", "--mount", "--uts", "--ipc", "--pid", "--cgroup", *words],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}{self.journal()}"
        return done

    def is_active(self, unit: str) -> bool:
        return self.run("systemctl", "is-active", "--quiet", unit, check=False).returncode == 0

    def property_of(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def journal(self) -> str:
        words = ["journalctl", "--no-pager", "--output=cat", "--lines=60", "--unit=pixconnect*"]
        return self.run(*words, check=False).stdout


def require_container() -> None:
    missing = [name for name in _NEEDED if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"it takes root, and {', '.join(missing)} (Debian: mmdebstrap systemd-container): nothing was booted")
    if ROOT.is_relative_to("/tmp"):  # noqa: S108  nothing is written there
        pytest.skip("the booted machine has a /tmp of its own, and this tree lies under /tmp: nothing was booted")


def make_root(folder: Path) -> Path:
    """Make a root folder with the program in it; skips the test if Debian's mirror cannot be reached."""
    root = folder / "root"
    release = platform.freedesktop_os_release()["VERSION_CODENAME"]
    made = subprocess.run(
        ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", release, root],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no Debian could be made, so nothing was booted: {made.stderr[-500:]}")
    environment = root / "opt" / "pixconnect" / ".venv"
    packages = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    for name in ("bin", packages):
        (environment / name).mkdir(parents=True)
    (root / "opt" / "python").mkdir()
    (environment / "pyvenv.cfg").write_text("home = /opt/python/bin\ninclude-system-site-packages = false\n")
    (environment / "bin" / "python").symlink_to(f"/opt/python/bin/{Path(sys.executable).resolve().name}")
    script = f"#!{Path(PROGRAM).parent}/python\nimport sys\nfrom pixconnect.running.main import main\nsys.exit(main())\n"
    (environment / "bin" / "pixconnect").write_text(script)
    (environment / "bin" / "pixconnect").chmod(0o755)
    (root / "etc" / "ld.so.conf.d" / "python.conf").write_text("/opt/python/lib\n")
    return root


@contextmanager
def booted(root: Path, shared: Mapping[Path, str]) -> Iterator[BootedMachine]:
    """Run the machine while the block runs; ``shared`` folders of the host are there under the same names."""
    packages = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
    there = {Path(sys.base_prefix): "/opt/python", ROOT: str(ROOT), **shared}
    there[packages] = f"/opt/pixconnect/.venv/lib/{packages.parent.name}/site-packages"
    machine = subprocess.Popen(
        ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--console=pipe", "--boot", f"--directory={root}"]
        + [f"--bind{'' if name.startswith('/srv') else '-ro'}={folder}:{name}" for folder, name in there.items()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        found = BootedMachine(root, _find_first(machine))
        wait_until(lambda: found.run("systemctl", "is-system-running", check=False).stdout.strip() in {"running", "degraded"})
        # If Python is a shared library, its folder can be mounted only now.
        found.run("ldconfig")
        yield found
    finally:
        machine.send_signal(signal.SIGTERM)
        try:
            machine.wait(60)
        except subprocess.TimeoutExpired:
            machine.kill()
            machine.wait()


def _find_first(machine: subprocess.Popen[bytes]) -> int:
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s:
        if machine.poll() is not None:
            pytest.skip("this machine cannot boot a container (systemd-nspawn ended), so nothing was booted")
        for pid in descendants(machine.pid):
            # It has its own first process as soon as it has a namespace.
            if Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
                return pid
        time.sleep(0.1)
    pytest.skip("no systemd came up in the container, so nothing was booted")
