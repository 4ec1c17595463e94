"""Which server and history has our tables, and the known position of its write-ahead log."""

from datetime import datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct

CAME_WITHIN: Final = timedelta(minutes=1)
"""How much later than it came here it must have been seen at another place: clocks of two servers differ."""


class DatabaseServer(Struct, frozen=True, kw_only=True):
    system_identifier: int  # the id of its data folder: a newly created server has another
    timeline: int  # another after a restore to a point in time, and after a standby took over
    database_oid: int  # another where a dump was restored into a new database of the same server
    tables_oid: int = 0  # another where a dump was restored in the place of these tables
    started_at: datetime  # when the server was started; this does not reveal a loss: it may run on a copy of its data
    # How far its write-ahead log is safe on its disk, in octets. It never goes back, unless the data was put back.
    position: int
    notes_count: int = 0  # how often its tables have noted how far ids are
    # When its tables were given their mode: copies, standbys and restored data have the same, other installations do not.
    made_at: datetime | None = None
    # When its tables came here, by their own record: where they were before that is unknown.
    here_since: datetime | None = None
    seen_at: datetime | None = None  # when this was read, by its own clock

    @property
    def place(self) -> tuple[int, int, int]:
        """Its place, shared by a primary and its standbys."""
        return self.system_identifier, self.database_oid, self.tables_oid

    @property
    def identity(self) -> tuple[int, int, int, int]:
        return self.system_identifier, self.timeline, self.database_oid, self.tables_oid

    def is_behind(self, before: "DatabaseServer") -> bool:
        """Whether it lacks data that was on disk before, at the same or another place of the same installation."""
        if self.place != before.place:
            return self.was_left_for(before)
        # The log of restored data may have advanced further than before, by later work on that server.
        if self.notes_count < before.notes_count:
            return True
        return (self.timeline, self.position) < (before.timeline, before.position)

    def was_left_for(self, before: "DatabaseServer") -> bool:
        """Whether the same installation has been at another place since it came here."""
        if self.made_at is None or self.made_at != before.made_at or self.here_since is None or before.seen_at is None:
            return False
        return before.seen_at > self.here_since + CAME_WITHIN

    def takes_over_from(self, noted: "DatabaseServer", latest: "DatabaseServer | None") -> bool:
        """Whether it can be a promoted standby of the same data, with all of the log known to have existed.

        Args:
            noted: The tables as last seen, whose position is unknown.
            latest: A standby's known position, if any.
        """
        if self.place != noted.place or self.timeline < noted.timeline:
            return False
        # Positions go on over a takeover.
        return latest is None or (self.position >= latest.position and self.notes_count >= latest.notes_count)

    def is_replaced_by(self, latest: "DatabaseServer") -> bool:
        """Whether it was the primary before a takeover."""
        return self.system_identifier == latest.system_identifier and self.timeline < latest.timeline


class ServerMemory(Protocol):
    """Stores the server's state outside of its data: a restore would bring back an older record inside."""

    def read(self) -> DatabaseServer | None: ...

    def write(self, server: DatabaseServer) -> None:
        """Store it if possible; must not raise on a failure."""
