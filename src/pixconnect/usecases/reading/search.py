"""Finds an id in all holders: the question of an operator who knows an id and nothing else."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from typing import Final

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.frame.wanted import Wanted
from pixconnect.domain.identity.console import READING_SCOPES, Viewer
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.pix_key import as_kept
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer
from pixconnect.foundation.pool import Pool
from pixconnect.store.identity.origin import Origin
from pixconnect.store.reading import search as search_store
from pixconnect.store.reading.search import Found
from pixconnect.usecases.frame.context import HasPool
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.reading import browse
from pixconnect.usecases.reading import origin as origin_usecases

TEXT_LENGTH_MAX: Final = 255
EACH_MAX: Final = 100
"""For each kind: holders choose their external ids themselves, so many may have the same."""
_ID_MAX: Final = 2**53 - 1
_BEGINNING: Final = re.compile(r"[ED][0-9A-Z]{8}[0-9]{7,12}|[ED][0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{1,10}")
"""Of a name on the network, which has 32 characters: an institution's ISPB, then the minute, then what is left to chance."""
_HALF: Final = 16
_TO_THE_MINUTE: Final = 21
"""One holder's are looked for among all those that begin so, which are few only of one minute."""
LOOKED_FOR_MAX: Final = browse.PAGE_SIZE_MAX


async def find_by_any_id(context: OperatorContext, text: str) -> list[Found]:
    """Everything that has this id, ours or the holder's or the network's."""
    found = await _find(context.pool, text, None)
    if not found:
        raise errors.NotFound(f"nothing has the id {text}")
    return found


async def find_with_origins(context: OperatorContext, text: str) -> list[tuple[Found, Origin | None]]:
    """The same with who asked for each, as far as that is known."""
    found = await find_by_any_id(context, text)
    origins = await origin_usecases.find_origins(context.pool, found)
    return [
        (one, origins.get((one.kind, int(one.id), one.holder_id)) if one.holder_id and one.id.isdecimal() else None)
        for one in found
    ]


async def find_anything(context: HasPool, viewer: Viewer, text: str) -> list[Found]:
    """The same for a visitor of the console: a holder finds its own things within its scopes; none is no error."""
    text = text.strip()
    # As webhooks name an event.
    number = text.removeprefix("evt_")
    found = await _find(context.pool, number if number.isdecimal() else text, viewer.holder_id)
    return [one for one in found if viewer.may_see(one.kind)]


async def look_for(
    context: OperatorContext, holder_id: int | None, wanted: Wanted, day: date | None
) -> tuple[list[Found], datetime | None]:
    """Charges, transfers and refunds by what people know of them where they know no id, the newest of each kind first.

    Args:
        holder_id: Whose; ``None`` is all holders'.
        wanted: Its instants are those of the day.
        day: Of Sao Paulo.

    Returns:
        What was found, and how far back it was looked for, where there may be more.
    """
    if day is not None:
        began_at = datetime.combine(day, time.min, SAO_PAULO)
        # What settles at the institution before midnight may be listed, and recorded here, a good while after it.
        wanted = structs.replace(wanted, initial_at=began_at, final_at=began_at + timedelta(days=2))
    viewer = Viewer(holder_id=holder_id, scopes=READING_SCOPES)
    charges = await browse.browse_charges(context, viewer, wanted, page_size=LOOKED_FOR_MAX)
    transfers = await browse.browse_transfers(context, viewer, wanted, page_size=LOOKED_FOR_MAX)
    refunds = await browse.browse_refunds(context, viewer, wanted, page_size=LOOKED_FOR_MAX)
    found = [
        *(_as_found("charge", one, one.txid, one.created_at) for one in charges.items),
        *(_as_found("transfer", one, one.shown_id, _settled(one)) for one in transfers.items),
        *(_as_found("refund", one, one.shown_id, _settled(one)) for one in refunds.items),
    ]
    if day is not None:
        found = [one for one in found if one.created_at.astimezone(SAO_PAULO).date() == day]
    ends = [
        page.searched_to or page.items[-1].created_at for page in (charges, transfers, refunds) if page.next is not None
    ]
    return found, max(ends, default=None)


def _settled(one: Transfer | Refund) -> datetime:
    return one.network_settled_at or one.settled_at or one.created_at


def _as_found(kind: str, one: Charge | Transfer | Refund, name: str, at: datetime) -> Found:
    return Found(
        kind=kind,
        id=str(one.id),
        holder_id=one.holder_id,
        external_id=one.external_id,
        name=name,
        status=one.status,
        amount_cents=one.amount_cents,
        asked_cents=one.asked_cents if isinstance(one, Charge) else None,
        created_at=at,
    )


async def _find(pool: Pool, text: str, holder_id: int | None) -> list[Found]:
    if not 1 <= len(text) <= TEXT_LENGTH_MAX or not text.isprintable():
        raise errors.BadRequest(f"any_id: must have 1 to {TEXT_LENGTH_MAX} printable characters")
    if _BEGINNING.fullmatch(text) and len(text) >= (_TO_THE_MINUTE if holder_id else _HALF):
        return await search_store.find_by_beginning(pool, text, EACH_MAX, holder_id)
    number = int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= _ID_MAX else None
    return await search_store.find_by_any_id(pool, text, number, as_kept(text), EACH_MAX, holder_id)
