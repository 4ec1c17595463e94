"""Start three machines and their proxy, up to one primary with two synchronous standbys."""

import asyncio
import json
import os
import secrets
import shlex
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import asyncpg

from support.ha.machine import DEPLOYED, Machine
from support.ha.network import NAMES, Network
from support.ha.programs import Programs, open_programs

START_TIMEOUT_S: Final = 120
_SECRETS: Final = ("SUPERUSER_PASSWORD", "REPLICATION_PASSWORD", "RESTAPI_PASSWORD")
_PATRONICTL: Final = "from patroni.ctl import ctl; ctl()"
"""Runs the script of this name, which does not exist if the packages are in a folder of their own."""
_IS_READY: Final = """
    select current_setting('synchronous_standby_names') like 'ANY 1 (%,%)'
        and count(*) filter (where state = 'streaming' and sync_state = 'quorum') = 2
    from pg_stat_replication
"""
_AWAY = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, TimeoutError)


class Cluster:
    """Knows the role of each machine, and causes no failures. The machines' user must be able to enter the home."""

    def __init__(
        self, home: Path, network: Network, programs: Programs, cores: Sequence[str | None] = (None, None, None)
    ) -> None:
        self.home, self.network, self.programs = home, network, programs
        self.secrets = _read_secrets(home)
        self.machines = {
            name: Machine(name, home, network, programs, self.secrets, pinned)
            for name, pinned in zip(NAMES, cores, strict=True)
        }
        self._proxy: subprocess.Popen[bytes] | None = None

    @property
    def superuser_url(self) -> str:
        """The address of the primary, by the proxy."""
        return self.url("postgres", self.secrets["SUPERUSER_PASSWORD"], "postgres")

    def url(self, user: str, password: str, database: str = "pixconnect", port: int = 5432) -> str:
        return f"postgresql://{user}:{password}@{self.network.proxy_address}:{port}/{database}"

    def start(self) -> None:
        for machine in self.machines.values():
            machine.start()
        self.start_proxy()

    def start_proxy(self) -> None:
        places = {"HA_LISTEN": self.network.proxy_address}
        places |= {f"HA_{name.upper()}": machine.address for name, machine in self.machines.items()}
        with (self.home / "haproxy.log").open("ab") as log:
            self._proxy = subprocess.Popen(
                [*self.programs.run_as_user(), self.programs.haproxy, "-db", "-f", DEPLOYED / "haproxy.cfg"],
                env=dict(PATH="/usr/sbin:/usr/bin:/sbin:/bin") | places,
                cwd="/",
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def stop(self) -> None:
        """Stop everything in order, standbys first, so that none takes over."""
        leader = self.find_leader()
        last = [self.machines[leader]] if leader else []
        for machine in [*(each for each in self.machines.values() if each not in last), *last]:
            machine.end("patroni", "postgres")
        for machine in self.machines.values():
            machine.end("etcd")
        self.stop_proxy()

    def stop_proxy(self) -> None:
        if self._proxy is not None:
            self._proxy.terminate()
            self._proxy.wait(20)
            self._proxy = None

    def kill(self) -> None:
        for machine in self.machines.values():
            machine.kill()
        self.stop_proxy()

    def see(self) -> dict[str, Any] | None:
        for machine in self.machines.values():
            with suppress(OSError, ValueError):
                address = f"http://{machine.address}:8008/cluster"
                with urllib.request.urlopen(address, timeout=1) as answer:
                    return json.load(answer)
        return None

    def find_leader(self) -> str | None:
        """The machine that reports itself as primary; None if two do."""
        found: list[str] = []
        for name, machine in self.machines.items():
            with suppress(OSError):
                address = f"http://{machine.address}:8008/primary"
                with urllib.request.urlopen(address, timeout=1) as answer:
                    found += [name] if answer.status == 200 else []
        return found[0] if len(found) == 1 else None

    def is_whole(self) -> bool:
        """Whether one writes, two follow it, its commits wait for one of them, and every etcd runs."""
        with suppress(*_AWAY):
            return self.find_leader() is not None and self._has_etcd() and asyncio.run(self._is_ready())
        return False

    def _has_etcd(self) -> bool:
        for machine in self.machines.values():
            with urllib.request.urlopen(f"http://{machine.address}:2379/health", timeout=1) as answer:
                if json.load(answer)["health"] != "true":
                    return False
        return True

    async def _is_ready(self) -> bool:
        connection = await asyncpg.connect(self.superuser_url, timeout=3)
        try:
            return await connection.fetchval(_IS_READY, timeout=3)
        finally:
            await connection.close(timeout=1)

    def wait_until(self, what: Callable[[], bool], said: str, timeout_s: float = START_TIMEOUT_S) -> float:
        """Wait, and return the seconds."""
        began_s = time.monotonic()
        while not what():
            assert time.monotonic() - began_s < timeout_s, f"not in {timeout_s:.0f} s: {said}: {self.see()}\n{self.say()}"
            time.sleep(0.1)
        return time.monotonic() - began_s

    def wait_until_whole(self, timeout_s: float = START_TIMEOUT_S) -> float:
        return self.wait_until(self.is_whole, "one primary and two standbys", timeout_s)

    def execute(self, *statements: str, database: str = "postgres", user: str = "postgres") -> None:
        """Run statements one by one on the primary as the superuser, or as another login with the same password."""

        async def run() -> None:
            url = self.url(user, self.secrets["SUPERUSER_PASSWORD"], database)
            connection = await asyncpg.connect(url, timeout=5)
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(run())

    @property
    def patronictl_words(self) -> str:
        """The beginning of a ``patronictl`` command line."""
        return shlex.join([self.programs.python, "-c", _PATRONICTL, "-c", str(DEPLOYED / "patroni.yml")])

    def patronictl(self, *words: str) -> str:
        machine = self.machines["one"]
        command = [*shlex.split(self.patronictl_words), *words]
        # Every machine can answer, because each knows all of them.
        done = subprocess.run(command, env=dict(machine.environment), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"patronictl {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def say(self, lines_count: int = 5) -> str:
        logs = [self.home / "haproxy.log", *sorted(self.home.glob("*/*.log"))]
        return "\n".join(
            f"{log.relative_to(self.home)}: {line}"
            for log in logs
            if log.exists()
            for line in log.read_text(errors="replace").splitlines()[-lines_count:]
        )


def _read_secrets(home: Path) -> Mapping[str, str]:
    file = home / "secrets.json"
    if not file.exists():
        file.touch(0o600)
        file.write_text(json.dumps({name: secrets.token_hex(16) for name in _SECRETS}))
    return json.loads(file.read_text())


@contextmanager
def open_cluster(network: Network, cores: Sequence[str | None] = (None, None, None)) -> Iterator[Cluster]:
    """Run a healthy cluster in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="pixconnect-ha-"))
    folder.chmod(0o755)
    cluster = Cluster(folder, network, open_programs(), cores)
    try:
        cluster.start()
        cluster.wait_until_whole()
        yield cluster
    finally:
        cluster.kill()
        shutil.rmtree(folder, ignore_errors=True)


def pin(names: Sequence[str]) -> list[str | None]:
    """Assign a core to each machine in turn; none if there is only one core."""
    cores = sorted(os.sched_getaffinity(0))
    return [str(cores[number % len(cores)]) if len(cores) > 1 else None for number, _ in enumerate(names)]
