"""When the certificates of accounts end: noted by whoever opens an account, read by whoever tells people."""

from __future__ import annotations

from datetime import datetime

from pixconnect.domain.institutions.certificate import EndingCertificate, find_ending
from pixconnect.domain.institutions.institution import OpenAccount
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.institutions import certificate as certificate_store


async def note_certificates(connection: Connection | Pool, opened: OpenAccount) -> None:
    """Note those by which an account is reached; where nothing has changed nothing is written."""
    await certificate_store.note(connection, opened.account.id, opened.institution.traits.certificates)


async def list_ending(connection: Connection | Pool, now: datetime) -> list[EndingCertificate]:
    """Those that end soon, the first one first."""
    return find_ending(await certificate_store.list_all(connection), now)
