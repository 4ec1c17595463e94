"""The HTTP edge beside other servers, with an application that answers two octets: what a request costs, and an attack.

- ``edge_<server>``: requests a second and CPU a request over 32 kept connections, all servers in turn in each round; medians;
- its ``attacks``: how much the server's peak memory grew while one connection sent 20 MB of requests ahead, of trailers, or of
  one trailer's value, and read nothing, for 20 s at most.

The application and the load are the same for all; ours is the server of this commit.
"""

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.figures import Row
from bench.harness.processes import cpu_seconds
from bench.load.generators import wrk

HERE = Path(__file__).parent
SERVERS = ("ours", "uvicorn_httptools", "uvicorn_h11", "aiohttp")
CONNECTIONS = 32
SENT_MAX = 20_000_000
ATTACK_MAX_S = 20.0
_CHUNKED = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
ATTACKS = {
    "requests_ahead": (b"", b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n" * 2000),
    "trailers": (_CHUNKED + b"0\r\n", b"ab:cd\r\n" * 8000),
    "trailer_value": (_CHUNKED + b"0\r\nx: ", b"y" * 56_000),
}


def measure_edge(seconds: float, rounds: int) -> Iterator[Row]:
    """A row for each server."""
    per_second: dict[str, list[float]] = {server: [] for server in SERVERS}
    cpu_us: dict[str, list[float]] = {server: [] for server in SERVERS}
    with ExitStack() as running:
        started = {server: running.enter_context(_running(server)) for server in SERVERS}
        for _ in range(rounds):
            for server, (port, pid) in started.items():
                before_s = cpu_seconds(pid)
                load = wrk(f"http://127.0.0.1:{port}", "/x", {}, ["t" * 400], connections=CONNECTIONS, seconds=seconds)
                per_second[server].append(load.per_second)
                cpu_us[server].append(1e6 * (cpu_seconds(pid) - before_s) / max(1, load.per_second * seconds))
    for server in SERVERS:
        yield {
            "name": f"edge_{server}",
            "seconds": seconds,
            "connections": CONNECTIONS,
            "per_second": statistics.median(per_second[server]),
            "cpu_us_each": statistics.median(cpu_us[server]),
            "attacks": {name: _attack(server, *octets) for name, octets in ATTACKS.items()},
        }


def _attack(server: str, beginning: bytes, block: bytes) -> Mapping[str, float]:
    """Send and never read; what the server's peak memory grew by."""
    with _running(server) as (port, pid), socket.create_connection(("127.0.0.1", port)) as attacker:
        before_mib, began_s, sent = _peak_mib(pid), time.monotonic(), 0
        attacker.settimeout(ATTACK_MAX_S / 4)
        try:
            attacker.sendall(beginning)
            while sent < SENT_MAX and time.monotonic() - began_s < ATTACK_MAX_S:
                sent += attacker.send(block)
        except OSError:
            pass  # hung up on, or it reads no more
        time.sleep(1)
        return {"sent_mb": sent / 1e6, "grown_mib": _peak_mib(pid) - before_mib, "seconds": time.monotonic() - began_s}


@contextmanager
def _running(server: str) -> Iterator[tuple[int, int]]:
    command = [sys.executable, str(HERE / "edge_server.py"), server]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), process.pid
        finally:
            process.kill()


def _peak_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024
