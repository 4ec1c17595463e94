"""The page that installs a production service runs as printed, from an empty PostgreSQL."""

import os
import re
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from support import pages
from support.ports import reserved_port
from support.production_guide import empty_server

pytestmark = [pytest.mark.journey, pytest.mark.long]

DEPLOY = pages.ROOT / "deploy"
PAGE = pages.ROOT / "docs" / "guides" / "production-in-order.md"
FILES = ("parts.sh", *(f"systemd/{name}" for name in ("logins.sql", "service.env", "operators.env", "console.env")))
FROM_ANOTHER_SHELL = """
```sh
before=$(cat /run/pixconnect.pids)
sh -c '. /opt/pixconnect/deploy/parts.sh; start; stop'
for part in $before; do if ps -o stat= -p $part | grep -v Z; then exit 1; fi; done
```
"""
PORTS = ("8081", "9080", "9181", "9191", "8090")


async def test_the_page_leads_from_an_empty_server_to_an_upgraded_service(tmp_path: Path) -> None:
    folder, edited, page = tmp_path / "folder", tmp_path / "edited", tmp_path / PAGE.name
    for made in (folder, edited / "systemd", tmp_path / "log", tmp_path / "backups"):
        made.mkdir(parents=True)
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / ".venv").symlink_to(sys.prefix)
    async with empty_server(tmp_path / "server", durable=True) as (server, superuser_url):
        with ExitStack() as opened:
            places = {
                "/opt/pixconnect/deploy": str(edited),
                "PROGRAM=/opt/pixconnect": f"PROGRAM={tmp_path / 'program'}",
                "/run/pixconnect.pids": str(tmp_path / "pids"),
                "/etc/pixconnect": str(tmp_path / "etc"),
                "/var/lib/pixconnect": str(tmp_path / "home"),
                "/var/log": str(tmp_path / "log"),
                "/var/backups": str(tmp_path / "backups"),
                "@127.0.0.1:5432/pixconnect": f"@/pixconnect?{superuser_url.partition('?')[2]}",
            } | {port: str(opened.enter_context(reserved_port())) for port in PORTS}
            for name in FILES:
                (edited / name).write_text(_replace((DEPLOY / name).read_text(encoding="utf-8"), places))
            page.write_text(_replace(PAGE.read_text(encoding="utf-8") + FROM_ANOTHER_SHELL, places))
            path = os.pathsep.join((str(server.programs / "bin"), os.environ["PATH"]))
            kept = {name: value for name, value in os.environ.items() if not name.startswith("PIXCONNECT_")}
            pages.run_page(page, folder, kept | {"PATH": path, "SUPERUSER_DATABASE_URL": superuser_url})
    dump = (tmp_path / "backups" / "pixconnect.dump").stat()
    assert (dump.st_size > 0, dump.st_mode & 0o077) == (True, 0)


def _replace(text: str, replaced: dict[str, str]) -> str:
    # In one pass, because a port may contain another.
    return re.sub("|".join(map(re.escape, replaced)), lambda found: replaced[found[0]], text)
