"""What holders may do now whose money is about to leave."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, LiteralString

from pixconnect.domain.money.leaving import Standing
from pixconnect.domain.money.limit import Limits
from pixconnect.foundation.pool import Connection, Pool

_READ: Final[LiteralString] = """
    select holder.id as holder_id, may_withdraw, disabled_at is not null as is_disabled, deficit_cents, blocks_count,
        exists (
            select from block where block.holder_id = holder.id and state = 'open' and covered_cents < held_cents
        ) as has_uncovered_block,
        transfer_limit_cents, day_limit_cents, night_limit_cents, night_begins_late
    from holder join balance on balance.holder_id = holder.id where holder.id = any($1)
"""


async def read_standings(connection: Connection | Pool, holder_ids: Collection[int]) -> dict[int, Standing]:
    rows = await connection.fetch(_READ, list(holder_ids))
    return {
        row["holder_id"]: Standing(
            holder_id=row["holder_id"],
            may_withdraw=row["may_withdraw"],
            is_disabled=row["is_disabled"],
            deficit_cents=row["deficit_cents"],
            blocks_count=row["blocks_count"],
            has_uncovered_block=row["has_uncovered_block"],
            limits=Limits(
                transfer_cents=row["transfer_limit_cents"],
                day_cents=row["day_limit_cents"],
                night_cents=row["night_limit_cents"],
                night_begins_late=row["night_begins_late"],
            ),
        )
        for row in rows
    }
