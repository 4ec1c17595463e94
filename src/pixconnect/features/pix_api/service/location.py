"""Locations of the standard API (``loc``): create, read, list, unbind from a charge.

A location's binding changes only under its charge's lock: so the two agree, and two charges cannot both get one location.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.tables import LOCATIONS
from pixconnect.kernel.flows.charge import revise_charge
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import location as location_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.location import Location, LocationKind
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors


class NewLocation(Struct, kw_only=True):
    holder_id: int
    location_id: int
    token: str
    kind: LocationKind
    was_tried: bool = False  # a commit was lost, so it may exist


class UnboundLocation(Struct, kw_only=True):
    holder_id: int
    location_id: int
    taken_from: int | None = None  # the charge that an earlier try took it from; the COMMIT may have been lost


ShownLocation = tuple[Location, str | None]
"""With the txid of its charge."""


async def create_location(context: Context, caller: Caller, kind: LocationKind) -> Location:
    """Create a free location; ``Forbidden`` if an institution serves the holder's charges."""
    await _check_served_here(context, caller)
    new = NewLocation(
        holder_id=caller.holder_id,
        location_id=await context.ids.location_id(),
        token=context.entropy.token(location_rules.TOKEN_LENGTH),
        kind=kind,
    )
    return await context.writes.submit(CREATE_LOCATIONS, new)


async def _create_locations(batch: Batch[NewLocation]) -> list[Location]:
    work = await begin_work(batch)
    tried = [(new.location_id, new.holder_id) for new in batch if new.was_tried]
    known = await pix_store.lock_locations(work.connection, tried) if tried else {}
    made: list[Location] = []
    for new in batch:
        new.was_tried = True
        location = known.get((new.location_id, new.holder_id))
        if location is None:
            location = location_rules.open_location(new.location_id, new.holder_id, new.token, new.kind, None, work.now)
            work.put(LOCATIONS, location)
        made.append(location)
    await work.write()
    return made


CREATE_LOCATIONS: Final = WriteOperation("create_locations", _create_locations)


async def _check_served_here(context: Context, caller: Caller) -> None:
    if (await context.directory.read_account(caller.holder_id)).institution_id is not None:
        raise errors.Forbidden("as cobranças desta conta são servidas pela instituição: suas locations só podem ser lidas")


async def read_location(context: Context, caller: Caller, location_id: int) -> ShownLocation:
    location = await pix_store.find_location(context.pool, caller.holder_id, location_id)
    (shown,) = await _show_all(context, [errors.found(location, "id: there is no such location")])
    return shown


async def list_locations(
    context: Context, caller: Caller, kind: LocationKind | None, span: Span, *, is_bound: bool | None
) -> Page[ShownLocation]:
    """Read a page of the holder's locations, newest first; ``None`` is any kind, and bound or not.

    The contract's charges have one once this API has shown them.
    """
    statuses = location_rules.list_statuses(kind, is_bound=is_bound)
    page = await pix_store.read_locations(context.pool, caller.holder_id, statuses, span)
    return page.with_items(await _show_all(context, page.items))


async def unbind_location(context: Context, caller: Caller, location_id: int) -> Location:
    """Unbind a location from its charge, which no code leads to from then on; a free one stays.

    Raises:
        Forbidden: An institution serves the holder's charges.
        ServiceUnavailable: Another request bound it to another charge at the same time.
    """
    await _check_served_here(context, caller)
    return await context.writes.submit(UNBIND_LOCATIONS, UnboundLocation(holder_id=caller.holder_id, location_id=location_id))


async def _unbind_locations(batch: Batch[UnboundLocation]) -> list[Location | errors.PixConnectError]:
    work = await begin_work(batch)
    wanted = {(item.location_id, item.holder_id) for item in batch}
    seen = await pix_store.find_locations(work.connection, wanted)
    charge_ids = {(place.charge_id, place.holder_id) for place in seen.values() if place.charge_id is not None}
    # Charges before locations, as everywhere. So a location may have got another charge before it is locked.
    charges = await work.lock_charges(sorted(charge_ids))
    locations = await pix_store.lock_locations(work.connection, wanted)
    outcomes: list[Location | errors.PixConnectError] = []
    for item in batch:
        name = item.location_id, item.holder_id
        location = locations.get(name)
        if location is None:
            outcomes.append(errors.NotFound("id: there is no such location"))
            continue
        # If another charge has it now, the earlier try was executed: no request took it from that one.
        if item.taken_from is not None and location.charge_id not in {None, item.taken_from}:
            location = location_rules.free_location(location)
        elif location.charge_id is not None:
            item.taken_from = location.charge_id
            charge = charges.get((location.charge_id, location.holder_id))
            if charge is None:
                outcomes.append(errors.ServiceUnavailable("the location was given to a charge just now; nothing was done"))
                continue
            free = locations[name] = location_rules.free_location(location)
            work.move(LOCATIONS, location, free)
            revise_charge(work, charge, charge_rules.unbind_charge(charge))
            location = free
        outcomes.append(location)
    await work.write()
    return outcomes


UNBIND_LOCATIONS: Final = WriteOperation("unbind_locations", _unbind_locations)


def open_own_location(work: UnitOfWork, charge: Charge, location_id: int) -> Location:
    """Make the location of a locked contract's charge without one: at the address that its code has already."""
    errors.ensure(charge.contents is None, "a charge that the standard's door has written has its location")
    location = location_rules.open_location(
        location_id, charge.holder_id, charge.txid, location_rules.AT_ONCE, charge.id, charge.created_at
    )
    work.put(LOCATIONS, location)
    return location


async def locate_charges(context: Context, charges: Sequence[Charge]) -> dict[int, Location]:
    """Return the locations of charges of one holder, by the charge's id; those without one get it now."""
    bound = {(charge.id, charge.holder_id): charge for charge in charges if not charge.is_unbound}
    found = await pix_store.find_locations_of_charges(context.pool, bound) if bound else {}
    # Charges at institutions are served there.
    missing = [
        name
        for name, charge in bound.items()
        if name not in found and charge.contents is None and charge.institution_id is None
    ]
    if missing:
        found |= await _place_missing(context, sorted(missing))
    return {charge_id: location for (charge_id, _), location in found.items()}


async def _place_missing(context: Context, missing: Sequence[tuple[int, int]]) -> dict[tuple[int, int], Location]:
    location_ids = {name: await context.ids.location_id() for name in missing}
    async with context.writes.transaction() as batch:
        # Locked first: other requests that place them wait, and then find them placed.
        charges, _ = await charge_store.lock(batch.connection, missing)
        work = await begin_work(batch)
        placed = await pix_store.find_locations_of_charges(batch.connection, charges)
        for name, charge in charges.items():
            if name not in placed and not charge.is_unbound and charge.contents is None:
                placed[name] = open_own_location(work, charge, location_ids[name])
        await work.write()
    return placed


async def _show_all(context: Context, locations: Sequence[Location]) -> list[ShownLocation]:
    charge_ids = {location.charge_id for location in locations if location.charge_id is not None}
    charges: dict[int, Charge] = {}
    if charge_ids:
        charges = await charge_store.find_by_ids(context.pool, locations[0].holder_id, charge_ids)
    txids = {charge.id: charge.txid for charge in charges.values()}
    return [(location, txids.get(location.charge_id or 0)) for location in locations]
