"""The table of infractions.

Undecided ones are listed by their blocks, which stay open as long: open blocks have an index, so no list reads long-ended
infractions to find one that ends tomorrow.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Final, LiteralString

from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.contests.rules.infraction import Infraction, InfractionReturn
from pixconnect.features.movements.tables import IS_CONTESTED
from pixconnect.kernel.rules.block_report import InfractionState
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.tables import listing as listing_store
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.lookup import Command, FindAll, FindOne, ReadAll, Tuples, Value
from pixconnect.kernel.tables.refund import REFUND
from pixconnect.kernel.tables.table import Table, fetch_row, insert_of, update_of
from pixconnect.platform.pool import Pool

INFRACTION: Final = Table(
    "infraction",
    Infraction,
    """
    id bigint, holder_id bigint, institution_id smallint, name text, transfer_id bigint, end_to_end_id text, charge_id bigint,
    txid text, charge_external_id text, amount_cents bigint, taken_cents bigint, reason text, situation text, words text,
    state text, opened_at timestamptz, respond_by timestamptz, reported_at timestamptz, defence text, defended_at timestamptz,
    defence_state text, defence_refusal text, send_at timestamptz, remind_at timestamptz, slot smallint,
    created_at timestamptz, modified_at timestamptz
    """,
)
INSERT: Final = insert_of(INFRACTION, INFRACTION, name="infraction_row")
_MOVED: Final = INFRACTION.only(
    "id, holder_id, taken_cents, state, respond_by, reported_at, defence, defended_at, defence_state, defence_refusal",
    "send_at, remind_at, modified_at",
)
UPDATE: Final = update_of(INFRACTION, _MOVED, name="infraction_change")
INFRACTIONS: Final = Fact(rank=140, inserts=(INSERT,), updates=(UPDATE,), may_move_new=True, sort_key=attrgetter("name"))
# Written with the institution's refund, in one statement.
INFRACTION_RETURN: Final = Table(
    "infraction_return",
    InfractionReturn,
    "refund_id bigint, holder_id bigint, infraction_id bigint",
    key=("refund_id", "holder_id"),
)
INSERT_RETURNS: Final = insert_of(INFRACTION_RETURN, INFRACTION_RETURN, name="infraction_return_row")
INFRACTION_RETURNS: Final = Fact(rank=150, inserts=(INSERT_RETURNS,), key=None)

find_by_id: Final = lookup.one_by(INFRACTION, "id")
# Taken after the balances of their holders.
lock_by_id: Final = lookup.by_pairs(INFRACTION, "id", locks=True)

move: Final = INFRACTION.updating(_MOVED)
"""Change one outside of batches; the caller has locked it."""

lock_named: Final = FindAll[Infraction, Sequence[str], int | None](
    INFRACTION,
    """
    where name = any($1) and coalesce(institution_id, 0) = coalesce($2::smallint, 0) order by id, holder_id
    for no key update
    """,
)
"""Lock infractions by the institution's names and the account; after the balances of their holders."""

find_named: Final = FindOne[Infraction, str, int | None](
    INFRACTION, "where name = $1 and coalesce(institution_id, 0) = coalesce($2::smallint, 0)"
)

find_contested: Final = Tuples[tuple[int, int], Sequence[int], Sequence[int]](f"""
    select transfer_id, holder_id from unnest($1::bigint[], $2::bigint[]) as wanted (transfer_id, holder_id)
    where exists (
        select from infraction
        where infraction.transfer_id = wanted.transfer_id and infraction.holder_id = wanted.holder_id and {IS_CONTESTED}
    )
""")
"""Find those of some Pix, by id and holder, with a contest that is undecided, or whose institution claims a rest."""

_IS_DUE: Final[LiteralString] = """
    slot = any($1::smallint[]) and least(send_at, remind_at) <= $2::timestamptz and (institution_id is null or remind_at <= $2)
"""
IS_ANY_DUE: Final[LiteralString] = f"exists (select from infraction where {_IS_DUE})"
"""For slots ``$1`` at ``$2``."""

find_due: Final = FindAll[Infraction, Sequence[int], datetime, int](
    INFRACTION, f"where {_IS_DUE} order by least(send_at, remind_at), id limit $3"
)
"""Find those with an answer to send over the installation's own rail, or with a reminder due."""
find_unsent_of_account: Final = FindAll[Infraction, int, datetime, int](
    INFRACTION, "where least(send_at, remind_at) <= $2 and institution_id = $1 and send_at <= $2 order by send_at, id limit $3"
)
"""Find those whose answer is to be sent over an account by an instant."""

# No holder has so many that counting them would take long.
_LISTED: Final[LiteralString] = """
    from infraction where holder_id + 0 = $1 and created_at between $2 and $3 and ($4::text is null or state = $4)
"""
_PAGE: Final[LiteralString] = f"""
    select {INFRACTION.select} {_LISTED} and ($5::timestamptz is null or (created_at, id) < ($5, $6::bigint))
    order by created_at desc, id desc offset $7 limit $8
"""
_COUNT: Final[LiteralString] = f"select count(*) {_LISTED}"


async def read_page(pool: Pool, holder_id: int, state: InfractionState | None, span: Span) -> Page[Infraction]:
    """Read a page of a holder's infractions, of one state or of all, newest first."""
    listed = (holder_id, *listing_store.bounds(span.initial_at, span.final_at), state)
    after = (None, None, span.position) if span.after is None else (span.after.created_at, span.after.id, 0)
    rows = await pool.fetch(_PAGE, *listed, *after, span.page_size + 1)
    total_count = span.after.total_count if span.after else (await fetch_row(pool, _COUNT, *listed))["count"]
    has_more = len(rows) > span.page_size
    page = listing_store.make_page(span, rows[: span.page_size], total_count, has_more=has_more)
    return page.with_items([INFRACTION.read(row) for row in page.items])


is_of_holder: Final = Value[bool, int, str](
    "select exists (select from infraction where name = $2 and holder_id = $1 and institution_id is null)"
)
"""Whether a holder has an infraction of this name, over the installation's own rail."""

# $1 holder, or null for all; $2 states; $3 and $4 when it was opened; $5 and $6 amounts; $7 a part of a name.
_ASKED: Final[LiteralString] = """
    ($1::bigint is null or infraction.holder_id + 0 = $1) and infraction.state = any($2::text[])
    and opened_at between $3 and $4
    and amount_cents between coalesce($5::bigint, 0) and coalesce($6::bigint, 9223372036854775807)
    and ($7::text is null or strpos(lower(concat_ws(' ', name, end_to_end_id, txid, charge_external_id)), lower($7)) > 0)
"""
_UNDER_BLOCK: Final[LiteralString] = """
    (
        select infraction.* from block join infraction on infraction.name = block.reference
            and infraction.holder_id = block.holder_id
            and coalesce(infraction.institution_id, 0) = coalesce(block.institution_id, 0)
        where block.state = 'open' and block.kind = 'med'
    ) as infraction
"""
Asked = tuple[int | None, list[str], datetime, datetime, int | None, int | None, str | None]


def list_asked(holder_id: int | None, states: Sequence[str], wanted: Wanted) -> Asked:
    oldest, newest = listing_store.bounds(wanted.initial_at, wanted.final_at)
    amounts = wanted.amount_min_cents, wanted.amount_max_cents
    return (holder_id, list(states), oldest, newest, *amounts, wanted.name_part)


list_undecided: Final = ReadAll[Infraction, *Asked, datetime, int, int](
    INFRACTION,
    f"""
    select {INFRACTION.select} from {_UNDER_BLOCK} where state in ('open', 'answered') and {_ASKED}
        and (respond_by, id) > ($8, $9::bigint)
    order by respond_by, id limit $10
    """,
)
"""List undecided infractions, after a deadline and an id."""
# By ids, as in all lists without an index of their own: the highest are the newest.
list_decided: Final = FindAll[Infraction, *Asked, int, int](
    INFRACTION, f"where state in ('taken', 'released') and {_ASKED} and id < $8 order by id desc limit $9"
)

# An answer that the institution refused counts as none: another may be given.
count_unanswered: Final = Tuples[tuple[int, datetime | None], int | None, datetime](f"""
    select count(*), min(respond_by) from {_UNDER_BLOCK}
    where state = 'open' and ($1::bigint is null or holder_id + 0 = $1) and respond_by > $2
        and (defence is null or defence_state = 'refused')
""")
"""Count infractions that can be answered and have no answer, with the first deadline; one row."""

find_any: Final = FindOne[Infraction, int, int | None](INFRACTION, "where id = $1 and ($2::bigint is null or holder_id = $2)")

find_of_transfers: Final = FindAll[Infraction, Sequence[int], Sequence[int]](
    INFRACTION, "where (transfer_id, holder_id) in (select * from unnest($1::bigint[], $2::bigint[])) order by id"
)
"""Find infractions of some Pix, given by id and holder, in order of first report."""

find_given_back: Final = FindAll[Refund, int, int](
    REFUND,
    """
    where (id, holder_id) in (
        select refund_id, holder_id from infraction_return where infraction_id = $1 and holder_id = $2
    ) order by id
""",
)

_move_back: Final = Command[datetime, timedelta]("""
    with moved as (
        update infraction set send_at = send_at - $2::interval, remind_at = remind_at - $2::interval,
            respond_by = respond_by - $2::interval
        where created_at > $1 and least(send_at, remind_at) is not null
        returning holder_id, name, institution_id
    )
    update block set respond_by = respond_by - $2::interval
    from moved where reference = name and block.holder_id = moved.holder_id
        and block.institution_id is not distinct from moved.institution_id
""")

DEADLINES: Final = (
    Deadline(
        first="select min(least(send_at, remind_at)) from infraction where least(send_at, remind_at) is not null",
        last="select max(least(send_at, remind_at)) from infraction where least(send_at, remind_at) <= $1",
        move_back=_move_back,
    ),
)
