"""A server that keeps a logical log, and applies one: those of other tests do not."""

import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pixconnect.local.embedded_postgres import EmbeddedPostgres
from support.old_home import new_home
from support.postgres import Addresses, make_template


class LogicalPostgres(EmbeddedPostgres):
    def _launch(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        # Of a setting that is given twice the last counts.
        return super()._launch([*command, "-c", "wal_level=logical", "-c", "max_logical_replication_workers=6"])


@asynccontextmanager
async def open_logical_server() -> AsyncIterator[tuple[LogicalPostgres, Addresses]]:
    """One with the template of all tests."""
    with new_home() as home:
        server = LogicalPostgres(home, connections_max=100, durable=False)
        try:
            await server.start()
            await make_template(server.owner_url)
            yield server, Addresses(owner_url=server.owner_url, service_url=server.login_url)
        finally:
            await server.stop(timeout_s=1)
