"""A small file that says how far the database was, beside the data and not in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
import structlog

from pixconnect.domain.running.database_server import DatabaseServer

FILE_NAME: Final = "database.json"

_log = structlog.get_logger(__name__)


class ServerFile:
    """In the home of this machine, which all processes of ours on it share."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME

    def read(self) -> DatabaseServer | None:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=DatabaseServer)
        except (OSError, msgspec.DecodeError):
            return None

    def write(self, server: DatabaseServer) -> None:
        # Not synced: after a power cut an older one, or none, is as good as what a process that has just begun knows.
        unfinished = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            unfinished.write_bytes(msgspec.json.encode(server))
            unfinished.rename(self._path)
        except OSError as error:
            _log.debug("the database's position is not kept", path=str(self._path), reason=type(error).__name__)
