"""Finds resources by any known fact: an id, a tax id, a name, an amount with its day, the request that made it."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final
from uuid import UUID

from msgspec import Struct, structs

from pixconnect.doors.console.wanted import (
    PAGE_SIZE_MAX,
    Wanted,
    list_possible_amounts,
    read_amounts,
    read_instants,
    read_known,
    read_order,
    read_otherwise,
)
from pixconnect.features.finding.service import browse
from pixconnect.features.finding.service.timeline import find_origins, find_tried
from pixconnect.features.finding.tables import browse as browse_store
from pixconnect.features.finding.tables import search as search_store
from pixconnect.features.finding.tables.search import Found
from pixconnect.kernel.flows.context import Core, Operator
from pixconnect.kernel.rules.access import READING_SCOPES, Viewer
from pixconnect.kernel.rules.br_code import parse_br_code
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.holder import as_kept
from pixconnect.kernel.rules.identifiers import is_end_to_end_id, is_return_id
from pixconnect.kernel.rules.refund import Refund
from pixconnect.kernel.rules.tax_id import is_cnpj, is_cpf, unmask_tax_id
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import origin as origin_store
from pixconnect.kernel.tables import refund as refund_store
from pixconnect.kernel.tables.clock import service_now
from pixconnect.kernel.tables.origin import Origin
from pixconnect.kernel.tables.table import split_pairs
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.pool import Pool

TEXT_LENGTH_MAX: Final = 255
EACH_MAX: Final = 100  # maximum per kind: holders choose their external ids themselves, so many may have the same
_ID_MAX: Final = 2**53 - 1
_BEGINNING: Final = re.compile(r"[ED][0-9A-Z]{8}[0-9]{7,12}|[ED][0-9A-Z]{8}[0-9]{12}[0-9A-Za-z]{1,10}")
"""The beginning of a name on the network, which has 32 characters: ISPB, minute, random ones."""
_HALF: Final = 16
_CODE_BEGINS: Final = "000201"
_LISTED: Final = dict[str, browse.Kind[Any]](charge=browse.CHARGES, transfer=browse.TRANSFERS, refund=browse.REFUNDS)
_TO_THE_MINUTE: Final = 21  # one holder's are searched among all with this beginning, which are few only within one minute
LOOKED_FOR_MAX: Final = PAGE_SIZE_MAX
_SHOWN_MAX: Final = 20  # maximum per kind, if people type other facts than an id
_HOLDERS_LOOKED_AT_MAX: Final = 10_000
_RELATED_MAX: Final = 10  # more things are a list, of which each is looked up by its own id
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{8,64}")
_REQUESTS_LOOKED_AT_MAX: Final = 5_000
_REQUEST_SHOWN_MAX: Final = 10
_FIRST: Final = datetime.min.replace(tzinfo=UTC)
_LAST: Final = datetime.max.replace(tzinfo=UTC)
_EARLIER: Final = timedelta(seconds=5)  # maximum lead of the naming process's clock over the database's


class SearchResult(Struct, frozen=True, kw_only=True):
    found: list[Found]  # by an id first
    asked: dict[str, str]  # the text as filters of a list; empty if it can only be an id
    searched_to: datetime | None = None  # how far back it was searched, if there may be more


async def find_with_origins(context: Operator, text: str) -> tuple[list[tuple[Found, Origin | None]], datetime | None]:
    """Find all resources of all holders that match, with their origins as far as known; and the oldest instant searched."""
    # The sandbox may have moved it, and a verb has not followed: "yesterday" is the service's.
    await service_now(context.clock, context.pool)
    viewer = Viewer(holder_id=None, scopes=READING_SCOPES)
    result = await find_known(context, viewer, text)
    if not result.found:
        raise errors.NotFound(_explain_nothing(text, result.asked))
    is_named = result.asked.keys().isdisjoint(("amount", "when"))
    found = await _add_related(context.pool, result.found) if is_named else result.found
    origins = await find_origins(context.pool, found)
    marked = [
        (one, origins.get((one.kind, int(one.id), one.holder_id)) if one.holder_id and one.id.isdecimal() else None)
        for one in await _mark(context, viewer, found)
    ]
    return marked, result.searched_to


async def _add_related(pool: Pool, found: list[Found]) -> list[Found]:
    """The same, and payments that were held or refused for these charges, and the refunds of all these payments."""
    if len(found) > _RELATED_MAX:
        return found
    pairs = {kind: [(int(one.id), one.holder_id or 0) for one in found if one.kind == kind] for kind in ("charge", "transfer")}
    tried = await find_tried(pool, pairs["charge"])
    paid = [*pairs["transfer"], *((each.id, each.holder_id) for each in tried)]
    refunds = await refund_store.find_of_transfers(pool, paid)
    # A charge is shown with the payment that paid it.
    known = {(one.kind, one.id) for each in found for one in (each, each.payment) if one is not None}
    more = map(_as_found, [*tried, *(refund for of_payment in refunds.values() for refund in of_payment)])
    return found + [one for one in more if (one.kind, one.id) not in known]


async def _mark(context: Core, viewer: Viewer, found: Sequence[Found]) -> list[Found]:
    """The same with what of each was returned, its open contest, and its wait for approval or as a suspect."""
    named = [(one.kind, int(one.id), one.holder_id) for one in found if one.holder_id and one.id.isdecimal()]
    marks = await browse.read_marks(context, viewer, named)

    def mark(one: Found) -> Found:
        what, until = marks.waiting.get(name := (one.kind, one.id), (None, None))
        marked = dict(returned_cents=marks.returned.get(name), open_infraction=marks.contested.get(name))
        return structs.replace(one, **marked, waits_for=what, held_as_suspect_until=until)

    return [mark(one) for one in found]


def _explain_nothing(text: str, asked: dict[str, str]) -> str:
    if "amount" in asked or "when" in asked:
        amount = f" of {asked['amount']}" if "amount" in asked else ""
        day = f" on {asked['when']} (days of Sao Paulo)" if "when" in asked else ""
        read = next((asked[name] for name in ("who", "part") if name in asked), "")
        party = f" by or to {read}" if "who" in asked else f" with {read} in an id" if read else ""
        alone = f"; '{read}' was read as a name or part of an id: search without it" if read else ""
        no_id = f"nothing has the id {text}, and there is " if text.strip().isdecimal() else ""
        return f"{no_id}no charge, transfer or refund{amount}{day}{party}{alone}"
    if _read_made_at(text) is not None:
        return f"nothing has the id {text}; a refused request made nothing, and only the log has its id"
    if is_end_to_end_id(text):
        return f"nothing has the id {text}; `pixconnect institution ask` reads it at an institution"
    amounts = list_possible_amounts(text) or ["25,50", "25,50 28/11/2026"]
    reason = "nothing has the id, name or tax id" if asked or len(text.split()) == 1 else "not understood, nor an id:"
    return f"{reason} {text}; `--part` finds a part of an id; an amount is written as '{amounts[0]}' or '{amounts[1]}'"


async def find_anything(context: Core, viewer: Viewer, text: str) -> list[Found]:
    """Find everything with this id, ours or the holder's or the network's; an empty result is no error.

    A holder's visitor finds its own resources, within its scopes.
    """
    text = text.strip()
    # A name of the network is often read out, or copied, in groups.
    if is_end_to_end_id(joined := "".join(text.split())) or is_return_id(joined):
        text = joined
    # As webhooks name an event.
    number = text.removeprefix("evt_")
    if text.startswith(_CODE_BEGINS):
        found = await _find_by_code(context.pool, text, viewer.holder_id)
    else:
        found = await _find(context.pool, number if number.isdecimal() else text, viewer.holder_id)
    return [one for one in found if viewer.may_see(one.kind)]


async def _find_by_code(pool: Pool, text: str, holder_id: int | None) -> list[Found]:
    """Find the charge of a pasted QR code, by the txid of a static one or the end of a location."""
    code = parse_br_code(text)
    name = code.txid or (code.location or "").rpartition("/")[2]
    served = await charge_store.find_served(pool, [name, f"cobv/{name}"])
    own = [one for one in served.values() if holder_id in (None, one.holder_id)]
    if own or not name:
        return [_as_found(one) for one in own]
    # Not as a number or a key: those would be other things.
    return await search_store.find_by_any_id(pool, name, None, "", EACH_MAX, holder_id)


SUGGESTED_LENGTH_MIN: Final = 3
SUGGESTED_MAX: Final = 5  # of each kind


async def _find_begun(context: Core, viewer: Viewer, text: str, each_max: int) -> list[Found]:
    """Things whose external id begins like this, by its index."""
    if len(text) < SUGGESTED_LENGTH_MIN:
        return []
    found = await search_store.find_by_external_beginning(context.pool, text, each_max, viewer.holder_id)
    return [one for one in found if viewer.may_see(one.kind)]


async def suggest(context: Core, viewer: Viewer, text: str) -> list[Found]:
    """Few things whose external id or network id begins like this, and holders with it in their names, by indexes alone."""
    text = text.strip()
    if not SUGGESTED_LENGTH_MIN <= len(text) <= TEXT_LENGTH_MAX or not text.isprintable():
        return []
    found = await _find_begun(context, viewer, text, SUGGESTED_MAX)
    if _BEGINNING.fullmatch(text) and len(text) >= (_TO_THE_MINUTE if viewer.holder_id else _HALF):
        found += await search_store.find_by_beginning(context.pool, text, SUGGESTED_MAX, viewer.holder_id)
    if viewer.may_see("holder"):
        found += await search_store.find_holders(context.pool, text, None, SUGGESTED_MAX, _HOLDERS_LOOKED_AT_MAX)
    return [one for one in found if viewer.may_see(one.kind)]


async def find_known(context: Core, viewer: Viewer, text: str) -> SearchResult:
    """Find all resources that a typed text matches: by an id, or else by its other possible meanings.

    Without an index, rows are scanned back from the newest, for a bounded time.
    """
    result = await _find_known(context, viewer, text)
    return structs.replace(result, found=await _add_payments(context, viewer, result.found))


async def _find_known(context: Core, viewer: Viewer, text: str) -> SearchResult:
    text, bare = text.strip(), unmask_tax_id(text.strip())
    tax_id = bare if is_cpf(bare) or is_cnpj(bare) else None
    found = await find_anything(context, viewer, tax_id or text)
    # An id of a request, or a code, has enough letters for a name.
    asked = {} if _read_made_at(text) or text.startswith(_CODE_BEGINS) else read_known(text, context.clock.now())
    found = found or await _find_by_request(context.pool, viewer, text)
    if not found and (order := read_order(text, context.clock.now())):
        named = [one for one in await find_anything(context, viewer, order["part"]) if one.kind in _LISTED]
        # A shorter one is part of too many ids.
        is_short = len(order["part"]) < SUGGESTED_LENGTH_MIN
        return SearchResult(found=named, asked={}) if is_short else await _find_by_facts(context, viewer, order, None, named)
    if found and tax_id is None:
        return SearchResult(found=found, asked={})
    # Digits alone are an amount, and the beginning of many a name.
    found = found or ([] if text.isdecimal() else await _find_begun(context, viewer, text, _SHOWN_MAX))
    if not asked:
        return SearchResult(found=found, asked={})
    result = await _find_by_facts(context, viewer, asked, tax_id, found)
    if not result.found and (meant := read_otherwise(text)):
        other = await _find_by_facts(context, viewer, meant, None, [])
        return other if other.found else result
    return result


async def _find_by_facts(
    context: Core, viewer: Viewer, asked: dict[str, str], tax_id: str | None, found: list[Found]
) -> SearchResult:
    """Find what filters of a list match, behind what was found by an id."""
    if "who" in asked and "amount" not in asked and viewer.may_see("holder"):
        found = found + await search_store.find_holders(context.pool, asked["who"], tax_id, EACH_MAX, _HOLDERS_LOOKED_AT_MAX)
    low, high = read_amounts(asked["amount"]) if "amount" in asked else (None, None)
    initial_at, final_at = read_instants(asked["when"], context.clock.now()) if "when" in asked else (None, None)
    wanted = Wanted(amount_min_cents=low, amount_max_cents=high, initial_at=initial_at, final_at=final_at)
    wanted = structs.replace(wanted, counterparty=asked.get("who"), name_part=asked.get("part"))
    looked, searched_to = await _look_at_lists(context, viewer, wanted, _SHOWN_MAX)
    known = {(one.kind, one.id) for one in found}
    new = [one for one in looked if (one.kind, one.id) not in known]
    return SearchResult(found=found + new, asked=asked, searched_to=searched_to)


async def _find_by_request(pool: Pool, viewer: Viewer, text: str) -> list[Found]:
    """Find the resources made by a request, by the id in its answer; a refused one has made none."""
    if not _REQUEST_ID.fullmatch(text):
        return []
    most = dict(looked_at_max=_REQUESTS_LOOKED_AT_MAX, count_max=_REQUEST_SHOWN_MAX)
    facts = await origin_store.list_of_request(pool, text, _read_made_at(text), viewer.holder_id, **most)
    found: list[Found] = []
    for fact in facts:
        kind = "charge" if fact.kind == "charge_change" else fact.kind
        things = await search_store.find_by_any_id(pool, str(fact.id), fact.id, str(fact.id), EACH_MAX, fact.holder_id)
        made = [one for one in things if (one.kind, one.id) == (kind, str(fact.id)) and viewer.may_see(kind)]
        found += [one for one in made if one not in found]
    return found


def _read_made_at(request_id: str) -> datetime | None:
    """Read when one of our ids was made, slightly earlier: a UUID of version 7 begins with its instant."""
    try:
        number = UUID(request_id)
    except ValueError:
        return None
    made_ms = number.int >> 80
    # Beyond that, instants overflow.
    if number.version != 7 or made_ms > 253_000_000_000_000:
        return None
    return datetime.fromtimestamp(made_ms / 1000, UTC) - _EARLIER


async def look_for(
    context: Operator, holder_id: int | None, wanted: Wanted, day: date | None
) -> tuple[list[Found], datetime | None]:
    """Find charges, transfers and refunds by known facts other than ids, newest of each kind first.

    Args:
        holder_id: The holder; ``None`` is all.
        wanted: Its instants are those of the day.
        day: Of Sao Paulo.

    Returns:
        The matches, and the oldest instant searched, if there may be more.
    """
    if day is not None:
        began_at = datetime.combine(day, time.min, SAO_PAULO)
        wanted = structs.replace(wanted, initial_at=began_at, final_at=began_at + timedelta(days=1, microseconds=-1))
    viewer = Viewer(holder_id=holder_id, scopes=READING_SCOPES)
    looked, searched_to = await _look_at_lists(context, viewer, wanted, LOOKED_FOR_MAX)
    return await _mark(context, viewer, await _add_payments(context, viewer, looked)), searched_to


async def _look_at_lists(context: Core, viewer: Viewer, wanted: Wanted, each_max: int) -> tuple[list[Found], datetime | None]:
    """Search the viewer's lists for it, and return how far back they were scanned."""
    found: list[Found] = []
    ends: list[datetime] = []
    for kind, listed in _LISTED.items():
        if not viewer.may_see(kind):
            continue
        page = await browse.browse(context, viewer, listed, wanted, page_size=each_max)
        of_kind = [*map(_as_found, page.items)]
        if kind == "charge" and (wanted.initial_at or wanted.final_at):
            # A person asks when money came: a charge that was paid at another time is left out.
            begin, end = wanted.initial_at or _FIRST, wanted.final_at or _LAST
            of_kind = await _add_payments(context, viewer, of_kind)
            of_kind = [
                one for one in of_kind if begin <= one.at <= end or (one.payment and begin <= one.payment.first_at <= end)
            ]
        elif kind == "refund":
            refunded = await browse.find_refunded(context, viewer, page.items)
            parties = {str(refund_id): transfer.counterparty for refund_id, transfer in refunded.items()}
            of_kind = [
                structs.replace(one, party=by.name, party_tax_id=by.tax_id) if (by := parties.get(one.id)) else one
                for one in of_kind
            ]
        found += of_kind
        if kind == "transfer" and wanted.counterparty is not None and viewer.may_see("charge"):
            found += await _find_paid(context.pool, page.items, {one.id for one in found if one.kind == "charge"})
        if page.next is not None:
            ends.append(page.searched_to or page.items[-1].created_at)
    return found, max(ends, default=None)


async def _add_payments(context: Core, viewer: Viewer, found: Sequence[Found]) -> list[Found]:
    """The same, charges with their payment, and payments under the name of their order.

    A viewer who may not see transfers sees only when charges were paid.
    """
    ordered = [(one.of_id, one.holder_id) for one in found if one.kind == "transfer" and one.of_id and one.holder_id]
    may_see = ordered and viewer.may_see("charge")
    names = await browse_store.read_charge_names(context.pool, *split_pairs(ordered)) if may_see else {}
    pairs = [(int(one.id), one.holder_id) for one in found if one.kind == "charge" and one.holder_id and not one.settled_at]
    paid = await browse_store.find_payments(context.pool, *split_pairs(pairs)) if pairs else []
    payments = {str(each.charge_id): each for each in paid}

    def add(one: Found) -> Found:
        if one.kind == "transfer":
            return structs.replace(one, external_id=names.get(one.of_id or 0, one.external_id))
        if one.kind != "charge" or (by := payments.get(one.id)) is None:
            return one
        return _with_payment(one, by) if viewer.may_see("transfer") else structs.replace(one, settled_at=_as_found(by).at)

    return [add(one) for one in found]


def _with_payment(charge: Found, by: Transfer) -> Found:
    payment = _as_found(by)
    party = dict(party=payment.party, party_tax_id=payment.party_tax_id)
    return structs.replace(charge, payment=payment, settled_at=payment.at, **party)


async def _find_paid(pool: Pool, transfers: Sequence[Transfer], known: Collection[str]) -> list[Found]:
    """Find the charges that these payments have paid, which may name another payer or none."""
    paying = {(one.charge_id, one.holder_id): one for one in transfers if one.charge_id and one.settled_at}
    charges = await search_store.find_charges(pool, list(paying))
    return [
        _with_payment(_as_found(one), by)
        for pair, by in paying.items()
        if (one := charges.get(pair)) is not None and str(one.id) not in known
    ]


def _as_found(one: Charge | Transfer | Refund) -> Found:
    found = Found(
        kind="charge",
        id=str(one.id),
        holder_id=one.holder_id,
        external_id=one.external_id,
        name=one.txid if isinstance(one, Charge) else one.shown_id,
        status=one.status,
        amount_cents=one.amount_cents,
        asked_cents=None,
        created_at=one.created_at,
    )
    if isinstance(one, Charge):
        return structs.replace(found, asked_cents=one.asked_cents, named_payer=one.payer and one.payer.name)
    outcome = f"{one.outcome_code}: {one.outcome_reason}" if one.outcome_code else None
    found = structs.replace(found, settled_at=one.network_settled_at or one.settled_at, outcome=outcome)
    if isinstance(one, Refund):
        return structs.replace(found, kind="refund", direction=one.flow, of_id=one.transfer_id, reason=one.reason)
    its = dict[str, Any](party=one.counterparty.name, party_tax_id=one.counterparty.tax_id, of_id=one.charge_id)
    return structs.replace(found, kind="transfer", direction=one.direction, message=one.payer_message, **its)


async def _find(pool: Pool, text: str, holder_id: int | None) -> list[Found]:
    if not 1 <= len(text) <= TEXT_LENGTH_MAX or not text.isprintable():
        raise errors.BadRequest(f"any_id: must have 1 to {TEXT_LENGTH_MAX} printable characters")
    if _BEGINNING.fullmatch(text) and len(text) >= (_TO_THE_MINUTE if holder_id else _HALF):
        return await search_store.find_by_beginning(pool, text, EACH_MAX, holder_id)
    number = int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= _ID_MAX else None
    return await search_store.find_by_any_id(pool, text, number, as_kept(text), EACH_MAX, holder_id)
