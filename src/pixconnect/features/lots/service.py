"""Lots of charges with a due date: requests are stored at once, and workers execute them.

The first request of a lot fixes its charges for ever. Its own rules are checked here, and those of a charge where that is made.
Workers use the same write operation as a put or a patch of a single charge. A charge and its item have one transaction
(``lots/item.py``), so nothing is lost or done twice if a worker is killed, or two run concurrently.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import asyncpg
import structlog
from msgspec import Struct, structs

from pixconnect.features.institutions.rules.pending_call import decode_caller, encode_caller, strip_rights
from pixconnect.features.lots import rules as lot_rules
from pixconnect.features.lots import tables as lot_store
from pixconnect.features.lots.item import ItemWrite, list_reasons
from pixconnect.features.lots.tables import DueItem, ItemKey
from pixconnect.features.pix_api.service.charge import NO_ADDRESS, make_write
from pixconnect.features.pix_api.service.charge_write import NOTED, REMOVAL, WRITE_CHARGES, ChargeWrite
from pixconnect.kernel.flows.context import Context, write_alone
from pixconnect.kernel.rules import ability
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect.platform.pool import Connection

ENTITY: Final = "loteCobV"
ITEMS: Final = f"{ENTITY}.cobsV"
NOT_THERE: Final = Violation(
    property=ENTITY, reason="lotes ainda não são oferecidos em contas que ficam em uma instituição: use /cobv/{txid}"
)
_TRIES_MAX: Final = 5  # maximum of retries after a concurrent change of the same lot, or of one of its charges


class PageBounds(Struct, frozen=True, kw_only=True):
    charges_max: int = 100_000  # a hundred lots, the default of a page, may have so many
    refused_octets_max: int = 12 * 1024 * 1024  # for the descriptions of refused charges
    read_at_once: int = 5_000  # charges per step: the process's other requests do not wait for all of them


PAGE_BOUNDS: Final = PageBounds()


class NewItem(Struct, frozen=True, kw_only=True):
    txid: str
    asked: lot_rules.WantedItem
    wanted: str  # as sent, merged with earlier requests for a charge that is not made yet; as JSON


class ShownLot(Struct, frozen=True, kw_only=True):
    lot: lot_rules.ChargeLot
    items: Sequence[lot_rules.ShownItem]


async def put_lot(context: Context, caller: Caller, number: int, description: str, items: Sequence[NewItem]) -> None:
    """Store a new lot, or request all charges of one again.

    Raises:
        Violated: The reason; nothing is stored then.
        InvalidQrCode: The rail does not support the service's codes.
        OutcomeUnknown: The commit was not answered; repeating the request does nothing twice.
    """
    ability.check_issues_codes(context.policy.abilities)
    account = await context.directory.read_account(caller.holder_id)
    for tried in range(1, _TRIES_MAX + 1):
        try:
            async with write_alone(context.pool) as connection:
                lot = await _find_or_judge(connection, caller, number, items)
                if lot is None and account.institution_id is not None:
                    # If it were accepted, and its charges refused one by one, its txids would be the lot's for ever.
                    raise Violated(ENTITY, [NOT_THERE])
                if lot is None:
                    await _open(context, connection, caller, number, description, items)
                else:
                    # The lot is locked before its items, to serialize requests of one lot; workers lock the items alone.
                    places = {item.txid: item for item in await lot_store.read_lot_items(connection, lot, locks=True)}
                    _check_same_set(places, items)
                    await _ask_again(connection, caller, lot, description, items, places)
            break
        except asyncpg.UniqueViolationError:
            # A concurrent request has made the same lot, or another one with one of its txids.
            if tried == _TRIES_MAX:
                raise
    context.wake_workers()


async def patch_lot(
    context: Context, caller: Caller, found: lot_rules.ChargeLot, description: str | None, items: Sequence[NewItem]
) -> bool:
    """Request changes of some charges of a lot, or rename it; false if it was changed since it was read.

    Raises:
        Violated: The reason; nothing is stored then.
        OutcomeUnknown: The commit was not answered; repeating the request does nothing twice.
    """
    async with write_alone(context.pool) as connection:
        lot = errors.require(
            await lot_store.find(connection, caller.holder_id, found.number, locks=True), "no lot is ever removed"
        )
        # The changes were merged with an outdated state: the caller reads the lot and merges again.
        if lot.asked_count != found.asked_count:
            return False
        places = {item.txid: item for item in await lot_store.read_lot_items(connection, lot, locks=True)}
        _check_known(places, items)
        await _ask_again(connection, caller, lot, description or lot.description, items, places)
    context.wake_workers()
    return True


async def find_lot(context: Context, caller: Caller, number: int) -> tuple[lot_rules.ChargeLot, Sequence[lot_rules.LotItem]]:
    lot = errors.found(await lot_store.find(context.pool, caller.holder_id, number), "id: there is no such lot")
    return lot, await lot_store.read_lot_items(context.pool, lot)


async def read_lot(context: Context, caller: Caller, number: int) -> ShownLot:
    lot = errors.found(await lot_store.find(context.pool, caller.holder_id, number), "id: there is no such lot")
    items = await lot_store.read_shown(context.pool, caller.holder_id, [number])
    return ShownLot(lot=lot, items=items[number])


async def list_lots(context: Context, caller: Caller, span: Span, bounds: PageBounds = PAGE_BOUNDS) -> Page[ShownLot]:
    """Read a page of the holder's lots, newest first; raises ``Violated`` if they exceed the limits of a page."""
    page = await lot_store.read_page(context.pool, caller.holder_id, span)
    numbers = [lot.number for lot in page.items]
    # One lot alone is always shown: there is no smaller page.
    if len(numbers) > 1:
        # Measured before anything is read: a refused page must not fill the memory first.
        refused_octets = await lot_store.measure_refusals(context.pool, caller.holder_id, numbers)
        charges_count = sum(lot.item_count for lot in page.items)
        if charges_count > bounds.charges_max or refused_octets > bounds.refused_octets_max:
            reason = "os lotes desta página têm cobranças demais, ou violações demais: peça menos lotes por página"
            wanted = Violation(property="paginacao.itensPorPagina", reason=reason, value=str(span.page_size))
            raise Violated(ENTITY, [wanted])
    items: dict[int, list[lot_rules.ShownItem]] = {}
    for some in _split(page.items, bounds.read_at_once):
        items |= await lot_store.read_shown(context.pool, caller.holder_id, some)
    return page.with_items([ShownLot(lot=lot, items=items[lot.number]) for lot in page.items])


def _split(lots: Sequence[lot_rules.ChargeLot], charges_max: int) -> Iterator[Sequence[int]]:
    part: list[int] = []
    count = 0
    for lot in lots:
        if part and count + lot.item_count > charges_max:
            yield part
            part, count = [], 0
        part.append(lot.number)
        count += lot.item_count
    yield part


async def _find_or_judge(
    connection: Connection, caller: Caller, number: int, asked: Sequence[NewItem]
) -> lot_rules.ChargeLot | None:
    """Lock and return the lot; if there is none, raise any reason against a new one of these charges."""
    lot = await lot_store.find(connection, caller.holder_id, number, locks=True)
    if lot is not None:
        return lot
    taken = set(await lot_store.find_taken(connection, caller.holder_id, [each.txid for each in asked]))
    if not taken:
        return None
    # A concurrent request may have made this lot since we looked: then its charges are its own.
    lot = await lot_store.find(connection, caller.holder_id, number, locks=True)
    if lot is not None:
        return lot
    reason = "uma cobrança com este txid já existe, ou está em outro lote"
    raise Violated(ENTITY, [Violation(property=ITEMS, reason=reason, value=each.txid) for each in asked if each.txid in taken])


async def _open(
    context: Context, connection: Connection, caller: Caller, number: int, description: str, asked: Sequence[NewItem]
) -> None:
    lot = lot_rules.ChargeLot(
        holder_id=caller.holder_id,
        number=number,
        slot=lot_rules.slot_of(number),
        description=description,
        item_count=len(asked),
        asked_count=1,
        created_at=await service_now_to_write(context.clock, connection),
    )
    items = [
        lot_rules.LotItem(
            holder_id=lot.holder_id, lot_number=number, place=place, txid=each.txid, status="PROCESSING", wanted=each.wanted
        )
        for place, each in enumerate(asked)
    ]
    # A worker makes the charges later: each request keeps its requester, without its rights.
    by = encode_caller(strip_rights(caller)).decode()
    requests = [_make_request(lot, item, each, by) for item, each in zip(items, asked, strict=True)]
    await lot_store.insert(connection, lot, items, requests)


async def _ask_again(
    connection: Connection,
    caller: Caller,
    before: lot_rules.ChargeLot,
    description: str,
    asked: Sequence[NewItem],
    places: Mapping[str, lot_rules.LotItem],
) -> None:
    """Add a request for each of these charges, except where the same one is the last pending one."""
    waiting = await lot_store.read_requests_ahead(connection, before)
    lot = structs.replace(before, description=description, asked_count=before.asked_count + 1)
    by = encode_caller(strip_rights(caller)).decode()
    items: list[lot_rules.LotItem] = []
    requests: list[lot_rules.LotRequest] = []
    full: list[Violation] = []
    for each in asked:
        item = places[each.txid]
        waiting_count, last = waiting.get(item.place, (0, ""))
        request = _make_request(lot, item, each, by)
        # The last pending request is the same: a repetition after a lost answer adds nothing.
        if last == request.asked:
            continue
        # Collected, so that one answer names all of them; nothing is stored then.
        if waiting_count >= lot_rules.WAITING_MAX:
            reason = "esta cobrança ainda está EM_PROCESSAMENTO, com mudanças demais à espera"
            full.append(Violation(property=ITEMS, reason=reason, value=each.txid))
        items.append(structs.replace(item, wanted=each.wanted))
        requests.append(request)
    if full:
        raise Violated(ENTITY, full)
    # A repetition without changes is no request: earlier readers of the lot may still patch it.
    if items or description != before.description:
        await lot_store.ask_again(connection, lot, items, requests)


def _make_request(lot: lot_rules.ChargeLot, item: lot_rules.LotItem, each: NewItem, asked_by: str) -> lot_rules.LotRequest:
    return lot_rules.LotRequest(
        holder_id=lot.holder_id,
        lot_number=lot.number,
        place=item.place,
        number=lot.asked_count,
        slot=lot.slot,
        asked=lot_rules.encode(each.asked).decode(),
        asked_by=asked_by,
    )


def _check_same_set(places: Mapping[str, lot_rules.LotItem], asked: Sequence[NewItem]) -> None:
    _check_known(places, asked)
    missing = places.keys() - {each.txid for each in asked}
    if missing:
        reason = "o lote tem esta cobrança, e a requisição não: de um lote não se remove nenhuma"
        raise Violated(ENTITY, [Violation(property=ITEMS, reason=reason, value=txid) for txid in places if txid in missing])


def _check_known(places: Mapping[str, lot_rules.LotItem], asked: Sequence[NewItem]) -> None:
    reason = "o lote não tem esta cobrança: a um lote não se acrescenta nenhuma"
    unknown = [Violation(property=ITEMS, reason=reason, value=each.txid) for each in asked if each.txid not in places]
    if unknown:
        raise Violated(ENTITY, unknown)


_NOT_MADE = Violation(
    property=f"{WITH_DUE_DATE}.status", reason="a cobrança não foi criada e não pode ser removida", value=REMOVAL
)

_log = structlog.get_logger(__name__)


async def do_due_items(
    context: Context, slots: Sequence[int], count_max: int, left_out: Collection[ItemKey] = ()
) -> tuple[int, set[ItemKey]]:
    """Execute the due requests in these slots, one for each charge.

    Args:
        left_out: Items that failed a moment ago.

    Returns:
        How many were executed, and those that failed by no fault of theirs: their requests stay.
    """
    due = await lot_store.find_due(context.pool, slots, count_max, len(left_out))
    taken = [each for each in due if _key_of(each) not in left_out]
    writes = [await _make_write(context, each) for each in taken]
    outcomes = await context.writes.submit_all(WRITE_CHARGES, writes)
    failed = {
        _key_of(each)
        for each, outcome in zip(taken, outcomes, strict=True)
        if isinstance(outcome, errors.PixConnectError) and not isinstance(outcome, NOTED)
    }
    if failed:
        _log.warning("items of lots wait", count=len(failed))
    return len(taken), failed


async def _make_write(context: Context, due: DueItem) -> ChargeWrite:
    request, asked = due.request, lot_rules.decode_asked(due.request.asked)
    is_first = due.charge_id is None
    is_change = asked.is_change and not is_first
    key = asked.change.key if is_change and asked.change else asked.contents.key if asked.contents else None
    caller = decode_caller(request.asked_by)
    location_id = asked.change_location_id if is_change else asked.location_id
    account = await context.directory.read_account(caller.holder_id)
    write = await make_write(context, caller, account, due.txid, WITH_DUE_DATE, key, location_id)
    refusal = _find_refusal(context, asked, is_first=is_first)
    write.item = ItemWrite(key=_key_of(due), number=request.number, is_first=is_first, refusal=refusal)
    if is_change:
        write.removes = asked.removes
        write.change = asked.change or write.change
        return write
    write.contents = asked.contents
    # No new lots are accepted there: this one is older, and only existing charges are changed.
    if account.institution_id is not None and is_first:
        write.violations = [*write.violations, structs.replace(NOT_THERE, property=WITH_DUE_DATE)]
    if account.address is None:
        write.violations = [*write.violations, NO_ADDRESS]
    return write


def _find_refusal(context: Context, asked: lot_rules.WantedItem, *, is_first: bool) -> lot_rules.Refusal:
    if not is_first and asked.is_change:
        return asked.change_refusal
    try:
        # The rail may have changed since the lot was accepted.
        ability.check_issues_codes(context.policy.abilities)
    except errors.RuleBroken as refusal:
        return list_reasons(refusal)
    return (_NOT_MADE,) if asked.removes else asked.contents_refusal


def _key_of(due: DueItem) -> ItemKey:
    return ItemKey(due.request.holder_id, due.request.lot_number, due.request.place)
