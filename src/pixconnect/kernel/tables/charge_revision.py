"""The table of charges' earlier revisions."""

from __future__ import annotations

from typing import Final, LiteralString

from msgspec import Struct

from pixconnect.kernel.rules.charge_contents import ChargeContents, decode_contents, encode_contents
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Part, Table
from pixconnect.platform.pool import Connection, Pool


class ChargeRevision(Struct, frozen=True, kw_only=True):
    charge_id: int
    holder_id: int
    revision: int
    contents: ChargeContents
    next_digest: bytes
    """Of the contents that replaced them."""


REVISION: Final = Table(
    "charge_revision",
    ChargeRevision,
    "charge_id bigint, holder_id bigint, revision integer, contents text, next_digest bytea",
    key=("charge_id", "holder_id", "revision"),
    read={"contents": (decode_contents, "contents")},
    write={"contents": lambda revision: encode_contents(revision.contents)},
)

INSERT: Final = Part[ChargeRevision](
    name="charge_revision_row",
    sql=f"insert into charge_revision ({REVISION.names}) {REVISION.rows}",
    arguments=REVISION.arrays,
)
REVISIONS: Final = Fact(rank=20, inserts=(INSERT,), key=None)

_FIND: Final[LiteralString] = """
    select contents from charge_revision where charge_id = $1 and holder_id = $2 and revision = $3
"""


async def find(pool: Connection | Pool, holder_id: int, charge_id: int, revision: int) -> ChargeContents | None:
    """Find a charge's contents in an earlier revision."""
    text = await pool.fetchval(_FIND, charge_id, holder_id, revision)
    return None if text is None else decode_contents(text)
