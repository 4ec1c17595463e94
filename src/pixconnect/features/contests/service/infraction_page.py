"""Infractions and blocks for people: soonest deadline first, and everything that an answer needs."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, get_args

from msgspec import Struct

from pixconnect.doors.console.wanted import LISTED, Browsed, Wanted, check_names, check_span
from pixconnect.features.contests import tables as infraction_store
from pixconnect.features.contests.rules.infraction import Infraction
from pixconnect.features.institutions.accounts import find_abilities
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.blocks import Block
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.access import Viewer
from pixconnect.kernel.rules.block_report import InfractionState
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.listing import Cursor, write_cursor
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import transfer as transfer_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.table import split_pairs
from pixconnect.platform.base import errors

STATES: Final[tuple[InfractionState, ...]] = get_args(InfractionState)
PAGE_SIZE: Final = 50
_EVER: Final = datetime(1, 1, 2, tzinfo=UTC)
_ID_MAX: Final = 2**63 - 1
_UNDECIDED, _DECIDED = 0, 1
"""The part of the list that a cursor is in: its ``position``."""


class InfractionLine(Struct, frozen=True, kw_only=True):
    infraction: Infraction
    held_cents: int


class InfractionStep(Struct, frozen=True, kw_only=True):
    """A past or future step of an infraction."""

    what: Literal["opened", "heard", "answered", "given_back", "taken", "released", "answer_ends", "block_ends"]
    at: datetime
    refund: Refund | None = None
    is_planned: bool = False


class InfractionPage(Struct, frozen=True, kw_only=True):
    infraction: Infraction
    block: Block | None
    """Its block, open or ended."""
    transfer: Transfer | None
    """The Pix; ``None`` if the viewer may not see transfers. Likewise charge and refunds."""
    charge: Charge | None
    refunds: Sequence[Refund]
    """The institution's returns because of it."""
    steps: Sequence[InfractionStep]
    """In the order in which they happen."""
    text_length_max: int
    now: datetime
    """Service time, by which the deadline passes."""


async def browse_infractions(
    context: Context, viewer: Viewer, wanted: Wanted, after: str | None = None, page_size: int = PAGE_SIZE
) -> Browsed[InfractionLine]:
    """Undecided infractions, the next deadline first; then ended ones, newest first.

    Raises:
        Forbidden: The viewer may not see them.
    """
    viewer.require_sight("infraction")
    span = check_span(wanted, after, page_size)
    states = check_names("status", wanted.statuses, STATES)
    pool, left = context.pool, page_size + 1
    asked = infraction_store.list_asked(viewer.holder_id, states, wanted)
    found: list[Infraction] = []
    # A cursor may be forged: any contents lead to a place of this list.
    part, at, last_id = (_UNDECIDED, _EVER, 0)
    if span.after is not None:
        part, at, last_id = span.after.position, span.after.created_at, span.after.id
    if part == _UNDECIDED:
        found += await infraction_store.list_undecided(pool, *asked, at, last_id, left)
        last_id = _ID_MAX
    undecided_count = len(found)
    if len(found) < left:
        found += await infraction_store.list_decided(pool, *asked, last_id, left - len(found))
    shown = found[:page_size]
    next_after = None
    if len(found) > page_size:
        in_part = _UNDECIDED if undecided_count >= page_size else _DECIDED
        last = Cursor(created_at=shown[-1].respond_by, id=shown[-1].id, position=in_part, total_count=0)
        next_after = write_cursor(last, LISTED)
    held = await movement_store.read_covered(pool, [each.name for each in shown]) if shown else {}
    lines = [
        InfractionLine(infraction=each, held_cents=held.get((each.holder_id, each.institution_id, each.name), 0))
        for each in shown
    ]
    return Browsed(items=lines, next=next_after)


async def read_infraction_page(context: Context, viewer: Viewer, infraction_id: int) -> InfractionPage:
    """Read an infraction, with its related records as far as the viewer may see them.

    Raises:
        Forbidden: The viewer may not see infractions.
        NotFound: It does not exist, or is another holder's.
    """
    viewer.require_sight("infraction")
    pool = context.pool
    own = await infraction_store.find_any(pool, infraction_id, viewer.holder_id)
    found = errors.found(own, "id: there is no such infraction")
    transfer = charge = None
    if viewer.may_see("transfer"):
        transfer = await transfer_store.find_by_id(pool, found.holder_id, found.transfer_id)
    if found.charge_id is not None and viewer.may_see("charge"):
        charge = await charge_store.find_by_id(pool, found.holder_id, found.charge_id)
    block = (await movement_store.find_blocks(pool, [found.name], found.institution_id)).get(found.name)
    refunds = await infraction_store.find_given_back(pool, found.id, found.holder_id) if viewer.may_see("refund") else []
    now = await service_now(context.clock, pool)
    abilities = await find_abilities(context, found.institution_id)
    return InfractionPage(
        infraction=found,
        block=block,
        transfer=transfer,
        charge=charge,
        refunds=refunds,
        steps=_lay_out(found, block, refunds, now),
        text_length_max=abilities.defence_length_max,
        now=now,
    )


async def find_contests(context: Context, viewer: Viewer, transfers: Iterable[Transfer]) -> list[Infraction]:
    """Find the contests of some Pix; none for a viewer who may not see infractions."""
    received = [(each.id, each.holder_id) for each in transfers if each.direction == "IN"]
    if not received or not viewer.may_see("infraction"):
        return []
    return await infraction_store.find_of_transfers(context.pool, *split_pairs(received))


async def find_claim(context: Context, contests: Iterable[Infraction]) -> Block | None:
    """Find the block of a contest whose institution has returned a part, and will take the rest from what comes in."""
    for each in contests:
        if each.state == "taken":
            block = (await movement_store.find_blocks(context.pool, [each.name], each.institution_id)).get(each.name)
            if block is not None and block.state == "open":
                return block
    return None


def _lay_out(found: Infraction, block: Block | None, refunds: Sequence[Refund], now: datetime) -> list[InfractionStep]:
    steps = [
        InfractionStep(what="opened", at=found.opened_at),
        InfractionStep(what="heard", at=found.created_at),
        *(InfractionStep(what="given_back", at=each.settled_at, refund=each) for each in refunds if each.settled_at),
    ]
    if found.defended_at is not None:
        steps.append(InfractionStep(what="answered", at=found.defended_at))
    if found.state == "taken" or found.state == "released":  # noqa: PLR1714  narrows its type
        steps.append(InfractionStep(what=found.state, at=found.reported_at))
    # After the deadline nothing depends on an answer, so no step is planned either.
    if found.can_be_answered(now):
        steps.append(InfractionStep(what="answer_ends", at=found.respond_by, is_planned=True))
    if block is not None and block.state == "open" and block.until is not None and block.until > now:
        steps.append(InfractionStep(what="block_ends", at=block.until, is_planned=True))
    return sorted(steps, key=lambda step: step.at)


async def count_unanswered(context: Context, viewer: Viewer) -> tuple[int, datetime | None]:
    """Count infractions that wait for an answer, with the first deadline; none for a viewer who may not see them."""
    if not viewer.may_see("infraction"):
        return 0, None
    now = await service_now(context.clock, context.pool)
    [counted] = await infraction_store.count_unanswered(context.pool, viewer.holder_id, now)
    return counted
