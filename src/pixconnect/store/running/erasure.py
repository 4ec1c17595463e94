"""Texts about people that no rule keeps any more, emptied by functions of the tables' owner.

They judge every row by the least times of the register of people's data, by the database's own clock, whatever they are asked;
and what is chained of a row stays provable by a digest of its own. So nobody who has the service's password can empty more.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.foundation.pool import Connection

# The rows of ``text_sweep``: another kind wants a row there and a branch in ``sweep_texts``.
SWEPT: Final = ("transfer", "refund", "charge", "infraction")


class RetentionPeriods(Struct, frozen=True, kw_only=True):
    """How old texts become here; never less than the functions know."""

    unpaid: timedelta
    """Of a charge that nobody paid, from its end."""
    message: timedelta
    party: timedelta


class Erased(Struct, frozen=True, kw_only=True):
    """A row whose texts were emptied."""

    id: int
    holder_id: int
    part: str
    """``message``, or ``all``: the person too."""


class SweepStep(Struct, frozen=True, kw_only=True):
    looked_count: int
    """0 at the end of a walk, and while none is due or somebody else walks."""
    erased_count: int


# It takes the row of the walk by ``skip locked``: of two workers the second one finds nothing to do, and waits for nobody.
_SWEEP: Final[LiteralString] = "select * from sweep_texts($1, $2, $3, $4, $5)"


async def sweep(connection: Connection, kind: str, ages: RetentionPeriods, count_max: int) -> SweepStep:
    """Look at the next rows of a walk over all of a kind, which begins anew each day."""
    row = await connection.fetchrow(_SWEEP, kind, count_max, ages.unpaid, ages.message, ages.party)
    return SweepStep(**row) if row else SweepStep(looked_count=0, erased_count=0)


# It locks the state of the chain before any row: entries are chained before their texts change or after, never meanwhile.
_ERASE_TRANSFERS: Final[LiteralString] = "select * from erase_transfers($1, $2, $3, $4)"


async def erase_transfers(
    connection: Connection, rows: Sequence[tuple[int, int]], ages: RetentionPeriods
) -> list[Erased]:
    """Empty what may go of transfers, each by its id and holder; answers those of which something went."""
    found = await connection.fetch(_ERASE_TRANSFERS, *_split(rows), ages.message, ages.party)
    return [Erased(**row) for row in found]


# A refund has a message alone: its payment says to whom it went.
_ERASE_REFUNDS: Final[LiteralString] = "select * from erase_refunds($1, $2, $3)"


async def erase_refunds(
    connection: Connection, rows: Sequence[tuple[int, int]], ages: RetentionPeriods
) -> list[Erased]:
    return [Erased(**row) for row in await connection.fetch(_ERASE_REFUNDS, *_split(rows), ages.message)]


# Charges are in no chain, so nothing is left of them to prove, and none is noted in ``erased_text``.
_ERASE_CHARGES: Final[LiteralString] = "select * from erase_charges($1, $2, $3, $4, $5)"


async def erase_charges(
    connection: Connection, rows: Sequence[tuple[int, int]], ages: RetentionPeriods
) -> list[Erased]:
    found = await connection.fetch(_ERASE_CHARGES, *_split(rows), ages.unpaid, ages.message, ages.party)
    return [Erased(**row) for row in found]


# What was said of a contest goes when the other side of its Pix may go: neither says anything without the other.
_ERASE_INFRACTIONS: Final[LiteralString] = "select * from erase_infractions($1, $2, $3)"


async def erase_infractions(
    connection: Connection, rows: Sequence[tuple[int, int]], ages: RetentionPeriods
) -> list[Erased]:
    return [Erased(**row) for row in await connection.fetch(_ERASE_INFRACTIONS, *_split(rows), ages.party)]


def _split(rows: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [row_id for row_id, _ in rows], [holder_id for _, holder_id in rows]
