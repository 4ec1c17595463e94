"""Which server holds our tables, which of its histories that is, and how far its write-ahead log is known to be."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from msgspec import Struct


class DatabaseServer(Struct, frozen=True, kw_only=True):
    system_identifier: int
    """The id of its data folder: a server that was made anew has another."""
    timeline: int
    """Another after a restore to a point in time, and after a standby took over."""
    database_oid: int
    """Another where a dump was restored into a new database of the same server."""
    tables_oid: int = 0
    """Another where a dump was restored in the place of these tables."""
    started_at: datetime
    """When the server was started; this does not show what it has forgotten: it may run on a copy of its data."""
    position: int
    """How far its write-ahead log is safe on its disk, in octets. It never goes back, unless the data was put back."""

    notes_count: int = 0
    """How often its tables have noted how far ids are."""

    made_at: datetime | None = None
    """When its tables were given their mode: copies, standbys and what is restored say the same, other installations do not."""

    @property
    def identity(self) -> tuple[int, int, int, int]:
        return self.system_identifier, self.timeline, self.database_oid, self.tables_oid

    def is_behind(self, before: DatabaseServer) -> bool:
        """Whether it has forgotten what had been on disk before: of this very server, or of another that had these tables."""
        if self.system_identifier != before.system_identifier:
            # Its log has positions of its own, but notes are counted in the tables, which go from server to server.
            return self.made_at is not None and self.made_at == before.made_at and self.notes_count < before.notes_count
        # The log of data that was put back may have come further than before, by whatever was done there since.
        has_forgotten = self.tables_oid == before.tables_oid and self.notes_count < before.notes_count
        return has_forgotten or (self.timeline, self.position) < (before.timeline, before.position)

    def takes_over_from(self, noted: DatabaseServer, latest: DatabaseServer | None) -> bool:
        """Whether it can be a standby of the same data that was promoted, with all of the log that is known to have been there.

        Args:
            noted: As the tables were last seen, whose position is not known.
            latest: How far a standby was known to be, where that is known.
        """
        same = (self.system_identifier, self.database_oid, self.tables_oid)
        if same != (noted.system_identifier, noted.database_oid, noted.tables_oid) or self.timeline < noted.timeline:
            return False
        # Positions go on over a takeover.
        return latest is None or (self.position >= latest.position and self.notes_count >= latest.notes_count)

    def is_replaced_by(self, latest: DatabaseServer) -> bool:
        """Whether it is what was the primary before a takeover."""
        return self.system_identifier == latest.system_identifier and self.timeline < latest.timeline


class ServerMemory(Protocol):
    """Remembers the server outside of its data: a restore would bring back an older note inside."""

    def read(self) -> DatabaseServer | None: ...

    def write(self, server: DatabaseServer) -> None:
        """Remember it if possible; a failure to write must not stop the process."""
        ...
