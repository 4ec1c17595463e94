"""Debian's pgbouncer in front of a test server."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from support.ports import reserved_port

PROGRAM = shutil.which("pgbouncer", path=os.pathsep.join((os.environ["PATH"], "/usr/sbin")))
_BEGIN_WITHIN_S = 30


@contextmanager
def open_pooler(server_url: str, logins: Mapping[str, str], folder: Path, *, mode: str, **more: str) -> Iterator[str]:
    """Run a pooler in front of the server's socket with these logins' passwords; yields ``host:port``."""
    assert PROGRAM is not None
    socket_folder = parse_qs(urlsplit(server_url).query)["host"][0]
    (folder / "users").write_text("".join(f'"{name}" "{password}"\n' for name, password in logins.items()))
    with reserved_port() as port:
        settings = dict(
            listen_addr="127.0.0.1", listen_port=str(port), unix_socket_dir="", auth_type="plain",
            auth_file=str(folder / "users"), pool_mode=mode, default_pool_size="60", max_client_conn="200",
        )  # fmt: skip
        lines = ["[databases]", f"pixconnect = host={socket_folder} dbname=pixconnect", "[pgbouncer]"]
        lines += [f"{name} = {value}" for name, value in (settings | more).items()]
        (folder / "pgbouncer.ini").write_text("\n".join(lines) + "\n")
        # It refuses to run as root.
        for path in (folder, folder / "users", folder / "pgbouncer.ini"):
            path.chmod(0o755)
        user = "nobody" if os.geteuid() == 0 else None
        log = (folder / "pgbouncer.log").open("wb")
        process = subprocess.Popen([PROGRAM, folder / "pgbouncer.ini"], user=user, stdout=log, stderr=log)
        try:
            until_s = time.monotonic() + _BEGIN_WITHIN_S
            while "process up" not in (written := (folder / "pgbouncer.log").read_text(errors="replace")):
                assert process.poll() is None, written
                assert time.monotonic() < until_s, "pgbouncer does not begin"
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()
            log.close()
