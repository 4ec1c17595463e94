"""What the supervisor allots to its parts."""

from datetime import UTC, datetime
from pathlib import Path

from pixconnect.adapters.server_file import ServerFile
from pixconnect.config import Settings
from pixconnect.domain.running.database_server import DatabaseServer
from pixconnect.local.stack import count_connections

SERVER = DatabaseServer(
    system_identifier=1, timeline=1, database_oid=1, started_at=datetime(2026, 11, 25, tzinfo=UTC), position=1
)


def test_the_embedded_server_has_connections_for_each_cell(tmp_path: Path) -> None:
    settings, api_count = Settings(database_connections_max=10), 2
    ServerFile(tmp_path).write(SERVER)
    alone = count_connections(settings, tmp_path, api_count)
    for others_count in (1, 2):
        ServerFile(tmp_path, others_count).write(SERVER)
        more = count_connections(settings, tmp_path, api_count) - alone
        # API processes and worker have a pool in each, and each pool may be used up.
        assert more > others_count * (api_count + 1) * settings.database_connections_max
