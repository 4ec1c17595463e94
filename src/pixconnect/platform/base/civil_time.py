"""The civil clock of Sao Paulo, by which limits, statements and the console count days and hours.

It is the zone and not a fixed offset of three hours: until February 2019 summers were an hour ahead, old days keep their
length, and PostgreSQL groups the console's figures by the same zone. A law that brings summer time back changes the zone's
file, which the package ``tzdata`` has where the system has none.
"""

from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

SAO_PAULO: Final = ZoneInfo("America/Sao_Paulo")


def to_day(instant: datetime) -> date:
    """The local day of an instant."""
    return instant.astimezone(SAO_PAULO).date()


def begin_of_day(now: datetime) -> datetime:
    """The midnight there with which the day of an instant began, in UTC."""
    # In UTC, because Python finds no instant equal to one of an hour that the civil clock skips.
    return now.astimezone(SAO_PAULO).replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)


def end_of_day(now: datetime) -> datetime:
    """The next local midnight, in UTC."""
    return datetime.combine(to_day(now) + timedelta(days=1), time(0), SAO_PAULO).astimezone(UTC)
