"""Charges at institutions whose opening or change has an unknown outcome, for monitoring."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, LiteralString

from msgspec import Struct, convert

from pixconnect.platform.pool import Connection, Pool


class WaitingCharge(Struct, frozen=True, kw_only=True):
    """A charge that is being opened, revised, removed or withdrawn."""

    institution: str
    """The account's name."""
    holder_id: int
    txid: str
    wanted: str
    """``open``, or the kind of its change."""
    asked_count: int
    said: str | None
    """The institution's last answer, in its words or ours."""
    since: datetime
    """Real time."""


# Few wait at any time, and each table has an index of those alone.
_LIST: Final[LiteralString] = """
    select name as institution, holder_id, txid, wanted, asked_count, said, waiting.created_at as since from (
        select institution_id, holder_id, txid, 'open' as wanted, calls_count as asked_count, refusal_reason as said, created_at
        from charge_opening where state = 'opening' and created_at < $1
        union all
        select institution_id, holder_id, txid, kind, calls_count, reason, created_at
        from charge_change where state = 'asked' and created_at < $1
    ) as waiting
    join institution_account on institution_account.id = institution_id
    order by waiting.created_at, txid limit $2
"""


async def list_begun(connection: Connection | Pool, begun_before: datetime, count_max: int) -> Sequence[WaitingCharge]:
    """Those that began before an instant, the longest waiting first."""
    return [convert(dict(row), WaitingCharge) for row in await connection.fetch(_LIST, begun_before, count_max)]
