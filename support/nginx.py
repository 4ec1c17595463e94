"""The proxy configuration of the guide, run by nginx with the ports and the certificate of a test."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from support.installation import ROOT
from support.waiting import wait_until

TEXT: Final = (ROOT / "deploy" / "nginx" / "pixconnect.conf").read_text(encoding="utf-8")
NAMES: Final = ("pix.example", "console.example", "mtls.pix.example")
_MODULE: Final = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


def skip_without_nginx() -> None:
    if shutil.which("nginx") is None or not _MODULE.exists():
        pytest.skip("there is no nginx with its stream module (Debian: apt-get install nginx-light libnginx-mod-stream)")


def let_in(folder: Path) -> None:
    """Let the server's user enter a folder of pytest, which is closed to others."""
    folder.chmod(0o711)
    for above in folder.parents:
        with suppress(PermissionError):
            above.chmod(above.stat().st_mode | 0o011)


def write_at(folder: Path, both: Path, ports: Mapping[str, str]) -> str:
    """The configuration with the ports and files of a test, otherwise unchanged."""
    text = re.sub(r"(listen |127\.0\.0\.1:)(\d+)(?![.\d])", lambda found: found[1] + ports.get(found[2], found[2]), TEXT)
    text = text.replace("listen ", "listen 127.0.0.1:", 1)
    text = re.sub(r"/etc/nginx/pixconnect\.(pem|key)", str(both), text).replace("/run/nginx.pid", f"{folder}/pid")
    text = text.replace("modules/ngx_stream_module.so", str(_MODULE)).replace("/var/log/nginx/error.log", f"{folder}/error.log")
    return text.replace("user www-data;", "user root;" if os.geteuid() == 0 else "")


@contextmanager
def running_nginx(folder: Path, text: str, port: int) -> Iterator[None]:
    (folder / "nginx.conf").write_text(text)
    words = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    tried = subprocess.run([*words, "-t"], capture_output=True, text=True, check=False)
    assert tried.returncode == 0, tried.stderr
    with subprocess.Popen([*words, "-g", "daemon off;"], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: _listens(port))
            yield
        finally:
            process.terminate()


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
