"""Writes charges as the standard API requests them: a put and a patch are one write operation.

Each locks the charge of its txid, decides against its present state, and writes charge, earlier contents, locations and events
together. One refusal lists all conflicts with the present state.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.due_charges.service import in_standard_order, judge_terms
from pixconnect.features.institutions.service.charge_change import remove_locked
from pixconnect.features.pix_api import tables as pix_store
from pixconnect.features.pix_api.lots import BatchItems, find_lots
from pixconnect.features.pix_api.service.location import open_own_location
from pixconnect.features.pix_api.tables import LOCATIONS
from pixconnect.kernel.flows.charge import revise_charge
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules import location as location_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge, announce_charge
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, are_equivalent, change_contents
from pixconnect.kernel.rules.location import Location, LocationKind
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.tables.origin import ORIGINS, Asked
from pixconnect.kernel.writing.batch import Batch, WriteOperation
from pixconnect.kernel.writing.unit_of_work import UnitOfWork, begin_work
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation

REMOVAL: Final = "REMOVIDA_PELO_USUARIO_RECEBEDOR"  # the status by which a patch removes a charge
NOTED: Final = (Violated, errors.RuleBroken, errors.NotFound)
"""Refusals of a charge that become those of a lot's item. After any other outcome the item's request stays."""


class StandardCharge(Struct, frozen=True, kw_only=True):
    charge: Charge
    contents: ChargeContents
    revision: int
    location: Location | None  # ``None`` after its removal

    @classmethod
    def of(cls, charge: Charge, location: Location | None) -> "StandardCharge":
        """Return a charge in its present state."""
        contents = charge_rules.read_contents(charge)
        return cls(charge=charge, contents=contents, revision=charge.revision or 0, location=location)

    @property
    def is_latest(self) -> bool:
        """Whether this is the latest revision: an earlier revision was active, and had no payment."""
        return self.revision == (self.charge.revision or 0)


class ChargeWrite(Struct, kw_only=True):
    """A put or a patch of one charge; all ids are generated before the first try."""

    holder_id: int
    caller: Caller
    txid: str
    kind: LocationKind
    contents: ChargeContents | None = None  # for a put: all wanted contents
    change: ContentsChange = ContentsChange()  # for a patch: the wanted changes
    removes: bool = False
    is_new: bool = False  # a put that changes no existing charge
    location_id: int | None = None  # the wanted location
    violations: Sequence[Violation] = ()  # violations of its key, raised unless nothing is to be changed
    charge_id: int
    new_location_id: int  # of a new location, or of the one of the contract's charge that had none: never of both
    new_token: str
    write_code: Callable[[str], str]  # writes the BR Code of a location's path
    item: object = None  # the lot's request that this executes
    was_tried: bool = False  # another process may have used one of its names meanwhile
    made: Charge | None = None  # the charge with the revision of an earlier try, whose COMMIT may have been lost


class _Locked(Struct):
    """The locked rows that a batch may change; each request sees the changes of earlier ones."""

    charges: dict[tuple[str, int], Charge]  # by txid and holder
    held: set[tuple[str, int]]  # txids, with their holders, that a lot held before the charges were locked
    taken: set[tuple[int, str]]  # holders and external ids of other charges
    locations: dict[tuple[int, int], Location]  # by id and holder
    done: set[int]  # writes that an earlier try has executed after all, by ``id``


async def _write_charges(batch: Batch[ChargeWrite]) -> list[StandardCharge | errors.PixConnectError]:
    # No money moves, so no balance is locked: charges of one holder never wait for its transfers.
    work = await begin_work(batch)
    locked = await _lock(work, batch)
    items = await find_lots().lock_items(work, batch, locked.charges, locked.held)
    outcomes: list[StandardCharge | errors.PixConnectError] = []
    for write in batch:
        try:
            decided = _decide(work, write, locked, items)
            outcomes.append(decided)
            items.note(write, decided.charge)
        except NOTED as refusal:
            outcomes.append(refusal)
            items.note(write, refusal)
    await work.write()
    await items.finish(work.connection)
    return outcomes


WRITE_CHARGES: Final = WriteOperation("write_standard_charges", _write_charges, external_id_of=lambda write: write.txid)


async def _lock(work: UnitOfWork, batch: Sequence[ChargeWrite]) -> _Locked:
    wanted_charges = sorted({(write.txid, write.holder_id) for write in batch})
    charges, held, first_id = await pix_store.lock_charges(work.connection, wanted_charges)
    work.count_from(first_id)
    taken: set[tuple[int, str]] = set()
    tried = [(write.txid, write.holder_id) for write in batch if write.was_tried]
    # The first try leaves it to the unique index: external ids like txids are rare.
    if tried:
        found = await charge_store.find_external(work.connection, tried)
        taken = {name for name, charge in found.items() if charge.txid != charge.external_id}
    for write in batch:
        write.was_tried = True
    owners = {(charge.id, charge.holder_id) for charge in charges.values()}
    own = await pix_store.find_locations_of_charges(work.connection, owners) if owners else {}
    # No other process changes the location of a locked charge.
    wanted = {(location.id, location.holder_id) for location in own.values()}
    wanted |= {(write.location_id, write.holder_id) for write in batch if write.location_id is not None}
    locations = await pix_store.lock_locations(work.connection, wanted) if wanted else {}
    # Our lost transaction may have committed while we waited for its locations, after we had looked for its charges.
    bound_to = {(location.charge_id, location.holder_id) for location in locations.values()}
    missed = {(write.txid, write.holder_id) for write in batch if (write.charge_id, write.holder_id) in bound_to}
    if missed - charges.keys():
        charges |= await work.lock_charges_by_txid(sorted(missed - charges.keys()))
    return _Locked(charges=charges, held=held, taken=taken, locations=locations, done=await _find_done(work, batch, charges))


async def _find_done(work: UnitOfWork, batch: Sequence[ChargeWrite], charges: dict[tuple[str, int], Charge]) -> set[int]:
    """Find charges with the result of an earlier try: its COMMIT was executed, and only the answer lost."""
    done: set[int] = set()
    for write in batch:
        made, charge = write.made, charges.get((write.txid, write.holder_id))
        if made is not None and charge is not None and await _was_written(work, made, charge, is_removal=write.removes):
            done.add(id(write))
    return done


async def _was_written(work: UnitOfWork, made: Charge, charge: Charge, *, is_removal: bool) -> bool:
    if made.id != charge.id or (charge.revision or 0) < (made.revision or 0):
        return False
    # No other has this id.
    if made.revision is None:
        return True
    if is_removal:
        # A removal is the last revision. Another one of the same charge has another instant.
        return charge.status == made.status and charge.modified_at == made.modified_at
    contents = charge.contents
    if charge.revision != made.revision:
        contents = await charge_store.find_revision(work.connection, made.holder_id, made.id, made.revision)
    return contents == made.contents


def _decide(work: UnitOfWork, write: ChargeWrite, locked: _Locked, items: BatchItems) -> StandardCharge:
    charge = locked.charges.get((write.txid, write.holder_id))
    if id(write) not in locked.done:
        items.check(write, charge, makes=write.contents is not None)
    if charge is None:
        if write.contents is None:
            raise errors.NotFound("txid: there is no such charge")
        return _create(work, write, write.contents, locked)
    if location_rules.location_kind_of(charge) != write.kind:
        raise _refuse_other_kind(write)
    own = _own_location(work, write, charge, locked)
    if id(write) in locked.done:
        return StandardCharge.of(charge, own)
    if write.is_new:
        raise errors.ExternalIdConflict("txid: there is a charge of this txid")
    if write.removes:
        return _remove(work, write, charge, own, locked)
    before = charge_rules.read_contents(charge)
    contents = write.contents or change_contents(before, write.change)
    if are_equivalent(contents, before) and not _wants_other_place(write, charge, own):
        return StandardCharge.of(charge, own)
    return _revise(work, write, charge, contents, own, locked)


def _refuse_other_kind(write: ChargeWrite) -> errors.PixConnectError:
    # Both kinds share one space of txids, and each is searched among its own.
    if write.contents is None:
        return errors.NotFound("txid: there is no such charge")
    other = "imediata" if write.kind == location_rules.WITH_DUE_DATE else "com vencimento"
    return Violated(
        write.kind, [Violation(property="txid", reason=f"este txid já é de uma cobrança {other}", value=write.txid)]
    )


def _wants_other_place(write: ChargeWrite, charge: Charge, own: Location | None) -> bool:
    if write.location_id is not None:
        return own is None or own.id != write.location_id
    # A put without a location keeps the existing one, and makes one if the charge has none.
    return own is None and write.contents is not None and charge_rules.may_be_changed(charge)


def _create(work: UnitOfWork, write: ChargeWrite, contents: ChargeContents, locked: _Locked) -> StandardCharge:
    terms = judge_terms(contents, None, work.now)
    violations = [*terms, *write.violations, *_judge_location(write, None, locked)]
    if (write.holder_id, write.txid) in locked.taken:
        reason = "este txid já é o external_id de outra cobrança"
        violations.append(Violation(property="txid", reason=reason, value=write.txid))
    if violations:
        raise Violated(write.kind, in_standard_order(violations))
    location = _take_location(work, write, write.charge_id, locked)
    charge = charge_rules.open_standard_charge(
        write.charge_id, write.holder_id, write.txid, contents, write.write_code(location.path), work.now
    )
    write.made = charge
    work.put(CHARGES, charge)
    work.put(ORIGINS, Asked("charge", charge.id, charge.created_at, write.caller))
    work.announce(announce_charge, charge, "qrcode.pending")
    locked.charges[charge.txid, charge.holder_id] = charge
    return StandardCharge.of(charge, location)


def _revise(
    work: UnitOfWork, write: ChargeWrite, charge: Charge, contents: ChargeContents, location: Location | None, locked: _Locked
) -> StandardCharge:
    terms = judge_terms(contents, charge_rules.read_contents(charge), work.now)
    violations = [*terms, *write.violations, *_judge_state(charge), *_judge_location(write, charge, locked)]
    if contents.amount_cents == 0 and not contents.may_change_amount:
        reason = "só pode ser 0.00 com modalidadeAlteracao 1"
        violations.append(Violation(property=f"{write.kind}.valor.original", reason=reason, value="0.00"))
    if violations:
        raise Violated(write.kind, in_standard_order(violations))
    after = charge
    # A charge's content does not include its location: another one alone is no revision (Pix API 2.9.0, ``Revisao``).
    if not are_equivalent(contents, charge_rules.read_contents(charge)):
        after = write.made = charge_rules.revise_charge(charge, contents, max(work.now, charge.modified_at))
    if _wants_other_place(write, charge, location):
        if location is not None:
            _move_location(work, location, location_rules.free_location(location), locked)
        location = _take_location(work, write, charge.id, locked)
        after = charge_rules.lead_to_charge(after, write.write_code(location.path))
    revise_charge(work, charge, after)
    work.put(ORIGINS, Asked("charge_change", after.id, work.now, write.caller))
    if after.status != charge.status:
        work.announce(announce_charge, after, "qrcode.pending")
    locked.charges[after.txid, after.holder_id] = after
    return StandardCharge.of(after, location)


def _remove(work: UnitOfWork, write: ChargeWrite, charge: Charge, own: Location | None, locked: _Locked) -> StandardCharge:
    violations = _judge_state(charge, REMOVAL)
    if violations:
        raise Violated(write.kind, violations)
    removed = write.made = remove_locked(work, charge, "REMOVED_BY_RECEIVER")
    work.put(ORIGINS, Asked("charge_change", removed.id, work.now, write.caller))
    locked.charges[removed.txid, removed.holder_id] = removed
    return StandardCharge.of(removed, own)


def _judge_state(charge: Charge, sent: str | None = None) -> list[Violation]:
    if charge.status not in charge_rules.ACTIVE:
        reason = "a cobrança não está ATIVA e não pode mais ser alterada"
    elif charge.held_by is not None:
        reason = "um pagamento desta cobrança foi aceito e ainda não liquidou: ela não pode ser alterada agora"
    else:
        return []
    return [Violation(property=f"{location_rules.location_kind_of(charge)}.status", reason=reason, value=sent)]


def _judge_location(write: ChargeWrite, charge: Charge | None, locked: _Locked) -> list[Violation]:
    if write.location_id is None:
        return []
    location = locked.locations.get((write.location_id, write.holder_id))
    if location is None:
        reason = "a location não existe"
    elif location.kind != write.kind:
        reason = f"a location é do tipo {location.kind}, e deveria ser do tipo {write.kind}"
    elif location.charge_id is not None and (charge is None or location.charge_id != charge.id):
        reason = "a location já está sendo utilizada por outra cobrança"
    else:
        return []
    return [Violation(property=f"{write.kind}.loc.id", reason=reason, value=str(write.location_id))]


def _own_location(work: UnitOfWork, write: ChargeWrite, charge: Charge, locked: _Locked) -> Location | None:
    """Return its location; a contract's charge not shown by this API yet gets one now."""
    if charge.is_unbound:
        return None
    # At most one per request of the batch, few of which concern an existing charge.
    owner = charge.id, charge.holder_id
    found = next((each for each in locked.locations.values() if (each.charge_id, each.holder_id) == owner), None)
    if found is None:
        found = open_own_location(work, charge, write.new_location_id)
        locked.locations[found.id, found.holder_id] = found
    return found


def _take_location(work: UnitOfWork, write: ChargeWrite, charge_id: int, locked: _Locked) -> Location:
    """Check the requested location, or make a new one."""
    if write.location_id is not None:
        free = locked.locations[write.location_id, write.holder_id]
        bound = location_rules.bind_location(free, charge_id)
        _move_location(work, free, bound, locked)
        return bound
    location = location_rules.open_location(
        write.new_location_id, write.holder_id, write.new_token, write.kind, charge_id, work.now
    )
    work.put(LOCATIONS, location)
    locked.locations[location.id, location.holder_id] = location
    return location


def _move_location(work: UnitOfWork, before: Location, after: Location, locked: _Locked) -> None:
    work.move(LOCATIONS, before, after)
    locked.locations[after.id, after.holder_id] = after
