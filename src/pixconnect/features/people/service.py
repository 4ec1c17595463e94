"""Personal data: export for a person's request, and erasure on request.

The register of personal data lists the kept data and their times (``kernel/register/retention.csv``). Erasure empties texts and
deletes no row: the books, their chain and every recorded head stay.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from pixconnect.features.people import tables as person_store
from pixconnect.features.people.tables import PersonEndpoint, PersonRow
from pixconnect.kernel.feature import list_features
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.register import RETENTIONS, Retention
from pixconnect.kernel.rules.tax_id import check_tax_id, mask_tax_id, unmask_tax_id
from pixconnect.kernel.tables import audit as audit_store
from pixconnect.kernel.tables import partition as partition_store
from pixconnect.kernel.tables.partition import RetentionPeriods
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

ERASED_AT_ONCE: Final = 500  # rows that are emptied in one transaction


if TYPE_CHECKING:
    ErasedKind: TypeAlias = str
else:
    ErasedKind = Literal[partition_store.SWEPT]
_OF_FEATURES: Final = {one.kind: one.data for feature in list_features() for one in feature.erasures}


class PersonLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    kind: str
    id: int
    holder_id: int | None
    role: str
    kept_as: Sequence[str]  # its names in the register of personal data
    kept_until: datetime | None  # ``None`` while the record is open, and for data that the program never removes
    texts: Any


class KeptPart(Struct, frozen=True, kw_only=True):
    """Data that a request does not erase yet."""

    kind: str
    kept_as: str
    count: int
    why: str
    until: datetime | None  # when the last of it expires; ``None`` while it is open, or never


class ErasedRow(Struct, frozen=True, kw_only=True):
    """A row that was erased on request, stored outside of the database for repeating the erasure after a restore.

    It names no person: ids lead to nothing once their texts are gone.
    """

    kind: ErasedKind
    id: Annotated[int, Meta(ge=1)]
    holder_id: Annotated[int, Meta(ge=1)]


class Erasure(Struct, frozen=True, kw_only=True):
    erased: dict[str, int]  # rows with an emptied text, by kind
    stays: list[KeptPart]
    receivers: list[PersonEndpoint]
    exported_at: list[datetime]  # earlier exports of this person's data


Note = Callable[[Sequence[ErasedRow]], None]  # durably records the rows about to be erased


def read_tax_id(text: str) -> str:
    """Read a CPF or CNPJ with or without punctuation; raises ``InvalidTaxId``, also for a masked one."""
    tax_id = unmask_tax_id(text.strip())
    check_tax_id(tax_id, "tax_id", "with its mask or without")
    return tax_id


async def export_person(context: Operator, text: str) -> AsyncGenerator[PersonLine]:
    """Yield everything about a person, row by row; the request is recorded first. ``InvalidTaxId`` if it is no CPF or CNPJ."""
    tax_id, ages = read_tax_id(text), requested_periods(context)
    # In a separate transaction, before the first row is read: an aborted export has shown a part of it.
    async with write_alone(context.pool) as connection:
        await audit.record(context, connection, "person export", _subject(tax_id))
    async with context.pool.acquire() as connection, aclosing(person_store.read_rows(connection, tax_id)) as slices:
        async for rows in slices:
            for row in rows:
                yield _line(context, row, ages)
            # Right after their rows, so that no more than a slice of either is in memory.
            for event in await person_store.list_events_of(connection, rows):
                announced = msgspec.json.decode(event)
                # It is dropped with its partition: no request ends it earlier.
                yield PersonLine(
                    kind="event",
                    id=announced["id"],
                    holder_id=None,
                    role="told",
                    kept_as=["event"],
                    kept_until=None,
                    texts=announced,
                )


async def erase_person(context: Operator, text: str, note: Note, batch_max: int = ERASED_AT_ONCE) -> Erasure:
    """Empty a person's texts that no rule keeps; report the rest and earlier receivers. A repetition does the rest.

    Args:
        note: Called before each transaction, so that every erased row is recorded first.
        batch_max: Rows that are emptied in one transaction.

    Raises:
        InvalidTaxId: It is no CPF or CNPJ.
        BadRequest: A case of the person's is open, a report of the rail that names them, or a contest or block of their Pix.
    """
    tax_id, ages = read_tax_id(text), requested_periods(context)
    async with context.pool.acquire() as connection:
        held = await _read_erasable(connection, tax_id)
        receivers = await person_store.list_receivers(connection, held)
        acts = await audit_store.list_before(connection, None, [_subject(tax_id)], _ACTS_MAX)
    # New texts follow the same rules as soon as they are old enough.
    notes = [
        ErasedRow(kind=row.kind, id=row.id, holder_id=row.holder_id)
        for row in held
        if row.kind in partition_store.SWEPT and not row.is_open
    ]
    erased = await _erase(context, notes, ages, _subject(tax_id), "person erase", note, batch_max)
    return Erasure(
        erased=erased,
        stays=await _list_stays(context, tax_id, ages),
        receivers=receivers,
        exported_at=[act.at for act in acts if act.verb == "person export"],
    )


async def check_erasable(context: Operator, text: str) -> None:
    """Raise what ``erase_person`` would, before anything is erased."""
    async with context.pool.acquire() as connection:
        await _read_erasable(connection, read_tax_id(text))


async def _read_erasable(connection: Connection, tax_id: str) -> list[PersonRow]:
    # All of it is found before anything is emptied: afterwards nothing leads from the tax id to these rows.
    held = list[PersonRow]()
    async with aclosing(person_store.read_rows(connection, tax_id)) as slices:
        async for rows in slices:
            for row in rows:
                # By its names alone: a company may have many.
                names = {name: text for name, text in row.texts.items() if name in _NAMES}
                held.append(msgspec.structs.replace(row, texts=names))
    # Refused as a whole, before anything is recorded: an open case still needs the rows' texts.
    await _refuse_open(connection, tax_id, held)
    return held


async def erase_again(context: Operator, notes: Sequence[ErasedRow]) -> dict[str, int]:
    """Repeat an erasure in a restored database; returns the number of rows, by kind."""
    # The given file is the note, so nothing is recorded again; rows that the restored database lacks are skipped.
    return await _erase(context, notes, requested_periods(context), "what was noted", "person erase again", lambda _: None)


def requested_periods(context: Operator) -> RetentionPeriods:
    """Return how old texts must be for erasure on request."""
    now = context.clock.real_now()
    return RetentionPeriods(
        unpaid=RETENTIONS.find("debtor", now).at_least,
        message=RETENTIONS.find("message", now).at_least,
        party=RETENTIONS.find("counterparty", now).at_least,
    )


async def _refuse_open(connection: Connection, tax_id: str, held: Sequence[PersonRow]) -> None:
    reports = [str(row.id) for row in held if row.kind == "report"]
    names = [name for row in held for name in row.texts.values()]
    if cases := await person_store.list_open_cases(connection, names, tax_id, reports):
        raise errors.BadRequest(
            f"tax_id: nothing is erased while a case of this person is open: {_enumerate(cases)}, see `pixconnect case show`"
        )
    if waiting := [row.id for row in held if row.kind == "report" and row.is_open]:
        raise errors.BadRequest(
            "tax_id: nothing is erased while a report that names this person waits: "
            f"{_enumerate(waiting)}, see `pixconnect report show`"
        )
    if blocked := await person_store.list_open_blocks(connection, held):
        raise errors.BadRequest(
            "tax_id: nothing is erased while money of this person's Pix is contested or blocked: "
            f"{_enumerate(blocked)}, see `pixconnect block list`"
        )


async def _erase(
    context: Operator,
    notes: Sequence[ErasedRow],
    ages: RetentionPeriods,
    subject: str,
    verb: str,
    note: Note,
    batch_max: int = ERASED_AT_ONCE,
) -> dict[str, int]:
    counts: dict[str, int] = dict.fromkeys(partition_store.SWEPT, 0)
    for kind in partition_store.SWEPT:
        of_kind = [one for one in notes if one.kind == kind]
        for start in range(0, len(of_kind), batch_max):
            batch = of_kind[start : start + batch_max]
            # Durable before the transaction: if the process dies in between, the note names rows that still have their texts,
            # and erasing them by it later is harmless. The other way round a restored backup would bring them back unnoticed.
            note(batch)
            async with write_alone(context.pool) as connection:
                gone = await partition_store.erase(connection, kind, [(one.id, one.holder_id) for one in batch], ages)
                # A batch without effect leaves no audit row.
                if gone:
                    await audit.record(context, connection, verb, subject, after={kind: len(gone)})
            counts[kind] += len(gone)
    if not any(counts.values()):
        # The request is recorded too, with any result.
        async with write_alone(context.pool) as connection:
            await audit.record(context, connection, verb, subject, after=counts)
    return counts


async def _list_stays(context: Operator, tax_id: str, ages: RetentionPeriods) -> list[KeptPart]:
    # Read again, after the erasure: the rows still found by the tax id are the ones that stay.
    found: dict[tuple[str, str, bool], KeptPart] = {}
    async with context.pool.acquire() as connection, aclosing(person_store.read_rows(connection, tax_id)) as slices:
        async for rows in slices:
            for row in rows:
                for kept, until in _kept(context, row, ages):
                    # Open rows are counted apart: one pending payment must not hide when all the others expire.
                    key = (row.kind, kept.name, until is None)
                    before = found.get(key)
                    found[key] = KeptPart(
                        kind=row.kind,
                        kept_as=kept.name,
                        count=1 + (before.count if before else 0),
                        why=_UNDER_WAY if row.is_open and row.kind != "holder" else f"{kept.why} ({kept.source})",
                        until=until if before is None or before.until is None or until is None else max(until, before.until),
                    )
    return list(found.values())


def _kept(context: Operator, row: PersonRow, ages: RetentionPeriods) -> list[tuple[Retention, datetime | None]]:
    """Return each text's kind of data and expiry; ``None`` while the row is open, or never."""
    now = context.clock.real_now()

    def as_(name: str, age: timedelta | None) -> tuple[Retention, datetime | None]:
        # An open row has no instant yet from which its time would run.
        until = None if age is None or row.is_open else row.began_at + age
        return RETENTIONS.find(name, now), until

    match row.kind:
        case "transfer":
            message = [as_("message", ages.message)] if "message" in row.texts else []
            return [as_("counterparty", ages.party), *message]
        case "refund":
            return [as_("message", ages.message)] if "message" in row.texts else []
        case "charge" if row.is_paid:
            return [as_("counterparty", ages.party)]
        case "charge":
            return [as_("debtor", ages.unpaid)]
        case kind if kind in _OF_FEATURES:
            return [as_(_OF_FEATURES[kind], ages.party)]
        case "holder":
            return [as_("account", None)]
        case kind:
            return [as_(kind, None)]


def _line(context: Operator, row: PersonRow, ages: RetentionPeriods) -> PersonLine:
    kept = _kept(context, row, ages)
    return PersonLine(
        kind=row.kind,
        id=row.id,
        # The tables have 0 for a report or a line of a statement without a holder.
        holder_id=row.holder_id or None,
        role=row.role,
        kept_as=[data.name for data, _ in kept],
        kept_until=max((until for _, until in kept if until is not None), default=None),
        texts=row.texts,
    )


def _subject(tax_id: str) -> str:
    # The audit is permanent: it must not show whose request was answered.
    return f"person {mask_tax_id(tax_id)}"


def _enumerate(ids: Sequence[int | str]) -> str:
    return ", ".join(map(str, ids[:_NAMED_MAX])) + (" and more" if len(ids) > _NAMED_MAX else "")


# Cases are about names of the network: only these texts of a company's many Pix stay in memory until the end.
_NAMES: Final = frozenset({"end_to_end_id", "return_id"})
_ACTS_MAX: Final = 1_000
_NAMED_MAX: Final = 5
_UNDER_WAY: Final = "it has not ended"
