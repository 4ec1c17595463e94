"""Acts of outside people: pay our holders, return received money, show QR codes, register keys.

Everything from outside has a number, which seeds its randomness. Numbers continue where the last process stopped.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence, Set
from datetime import datetime, timedelta
from typing import Final, Literal

import asyncpg
import msgspec
from asyncpg.pool import PoolConnectionProxy
from msgspec import Struct, structs

from pixconnect.features.sandbox.network import answers, behaviour, tables
from pixconnect.features.sandbox.network import registry as directory
from pixconnect.features.sandbox.network.behaviour import Behaviour, Chance, Faults
from pixconnect.features.sandbox.network.network import Network
from pixconnect.features.sandbox.network.outbox import Pending
from pixconnect.features.sandbox.network.registry import MerchantCode, MerchantSigner
from pixconnect.features.sandbox.network.tables import NewArrival
from pixconnect.features.sandbox.rules import (
    Arrival,
    ArrivalStatus,
    FaultAnswer,
    FaultRule,
    Message,
    NewKey,
    NewQrCode,
    OutsideMovement,
    OutsideReturn,
    OutsideTransfer,
    OutsideVerdict,
    SandboxRefusal,
    SandboxUnavailable,
)
from pixconnect.kernel.rules import br_code, identifiers
from pixconnect.kernel.rules.rail import CreditCancelled, CreditHeld, CreditReport, DirectoryEntry, MovementReport, ReturnReport
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.flow.batches import Batches

# How long a payer, contest or decision waits for the service's acknowledgement.
ACKNOWLEDGED_TIMEOUT_S: Final = 10.0
OVERTAKEN_BY_MS: Final = 1_000  # delay of a report that comes out of order

ARRIVALS_MAX: Final = 256
MERCHANT_CITY: Final = "Sao Paulo"

# A suspect payment has two steps, and its row has the report due at the end of its time. A decision by hand replaces that.
_FIND_HELD: Final = """
select report, due_at, is_due from arrival
where id = $1 and kind = 'credit' and is_open and held_at is not null for update
"""
# Reported at once; it stays due when the clock is moved back.
_DECIDE_HELD: Final = "update arrival set report = $2, taken_at = $3, due_at = $3, is_due = true where id = $1"
_decode_held: Final = msgspec.json.Decoder(CreditReport | CreditCancelled).decode


class Outside(Struct):
    pool: asyncpg.Pool
    clock: Clock
    chance: Chance
    faults: Faults
    network: Network
    signer: MerchantSigner
    address: str  # the ``host:port`` of the locations
    entry_numbers: Iterator[int]
    code_numbers: Iterator[int]
    arrivals: Batches[Sequence[tuple[NewArrival, Pending | None]], None]  # related arrivals are written together
    deciding: asyncio.Lock  # locked while an act reads the last report of something, and makes the next
    two_steps_ms: int  # from accepting a payment of a holder to its settlement; 0 settles it in one step


async def save_faults(pool: asyncpg.Pool, faults: Faults) -> None:
    """Store the remaining counts of rules; to be called before the message is answered."""
    if faults.changed:
        changed, faults.changed = faults.changed, {}
        await directory.save_times(pool, changed)


async def replace_faults(outside: Outside, rules: list[FaultRule]) -> list[FaultRule]:
    behaviour.check_rules(rules)
    await directory.replace_rules(outside.pool, rules)
    outside.faults.replace(rules)
    return outside.faults.rules


async def find_effect(outside: Outside, message: Message) -> FaultAnswer:
    effect = outside.faults.draw(message)
    await save_faults(outside.pool, outside.faults)
    return FaultAnswer(effect=effect)


async def look_up(outside: Outside, key: str, end_to_end_id: str) -> DirectoryEntry | None:
    how = await _find_behaviour(outside, Message(operation="lookup", id=end_to_end_id, key=key))
    await _check_answers(how)
    return None if how.code is not None else await _find_entry(outside, key)


async def find_entries(outside: Outside, keys: Set[str]) -> list[DirectoryEntry]:
    fixed = [entry for key in keys if (entry := directory.FIXED_ENTRIES.get(key)) is not None]
    added = keys - directory.FIXED_ENTRIES.keys()
    return [*fixed, *(await directory.find_entries(outside.pool, added) if added else ())]


async def list_keys(outside: Outside, _: None) -> list[DirectoryEntry]:
    return [*directory.FIXED_ENTRIES.values(), *await directory.list_added(outside.pool)]


async def add_key(outside: Outside, new: NewKey) -> DirectoryEntry:
    """Add an entry, or return the key's existing one."""
    found = None if new.key is None else await _find_entry(outside, new.key)
    if found is not None:
        return found
    number = next(outside.entry_numbers)
    entry = directory.make_entry(new, number, outside.chance)
    await directory.insert_entry(outside.pool, number, entry)
    # Read again: another request may have added the same key first.
    return await _find_entry(outside, entry.key) or entry


async def make_qr_code(outside: Outside, new: NewQrCode) -> str:
    key = new.key or directory.SETTLE_KEY
    entry = await _find_entry(outside, key)
    name = "Loja de Fora" if entry is None else entry.party.name
    try:
        if new.kind == "static":
            return br_code.format_static_br_code(key, name, MERCHANT_CITY, amount_cents=new.amount_cents, txid=new.txid)
        token = await _make_dynamic_code(outside, new, key)
        return br_code.format_dynamic_br_code(f"{outside.address}/qr/{token}", name, MERCHANT_CITY)
    except errors.Refusal as refusal:
        raise SandboxRefusal("invalid", refusal.message) from None


async def serve_location(outside: Outside, token: str) -> str | None:
    code = await directory.find_code(outside.pool, token)
    if code is None:
        return None
    how = await _find_behaviour(outside, Message(operation="resolve", id=token, key=code.key, amount_cents=code.amount_cents))
    await _check_answers(how)
    return None if how.code is not None else outside.signer.sign(code, outside.clock.now())


async def pay(outside: Outside, transfer: OutsideTransfer) -> Arrival:
    number = next(outside.network.arrival_numbers)
    end_to_end_id = make_network_id(outside, "E", number)
    key, amount_cents = transfer.credit_party.key, transfer.amount_cents
    how = await _find_behaviour(outside, Message(operation="payment", id=end_to_end_id, key=key, amount_cents=amount_cents))
    if transfer.suspect is not None:
        how = behaviour.hold(how, is_returned=transfer.suspect == "return")
    report = CreditReport(
        report_id=end_to_end_id,
        end_to_end_id=end_to_end_id,
        amount_cents=amount_cents,
        debit_party=directory.make_payer(transfer.payer, number, outside.chance),
        credit_party=transfer.credit_party,
        txid=transfer.txid,
        initiation_type=transfer.initiation_type,
        reported_at=outside.clock.now(),
        payer_message=transfer.payer_message,
    )
    return await _arrive(outside, number, "credit", report, key, how)


async def give_back(outside: Outside, asked: OutsideReturn) -> Arrival:
    """Return a transfer that the network has settled. The service checks the amount."""
    end_to_end_id = asked.end_to_end_id
    order = (await tables.find_orders(outside.pool, [end_to_end_id], outside.clock.now())).get(end_to_end_id)
    if order is None or order.kind != "order" or order.code is not None or not order.is_over:
        raise SandboxRefusal("unknown", "end_to_end_id: the network has settled no such transfer")
    number = next(outside.network.arrival_numbers)
    return_id = make_network_id(outside, "D", number)
    amount_cents = asked.amount_cents or order.amount_cents
    how = await _find_behaviour(outside, Message(operation="return", id=return_id, key=order.key, amount_cents=amount_cents))
    report = ReturnReport(
        report_id=return_id,
        return_id=return_id,
        original_end_to_end_id=end_to_end_id,
        amount_cents=amount_cents,
        reason=asked.reason,
        reported_at=outside.clock.now(),
    )
    return await _arrive(outside, number, "return", report, order.key, how)


async def move(outside: Outside, asked: OutsideMovement) -> Arrival:
    """Move money as the institution or a person in its app does."""
    number = next(outside.network.arrival_numbers)
    item_id = make_network_id(outside, "M", number)
    now = outside.clock.now()
    report = MovementReport(report_id=item_id, item_id=item_id, end_to_end_id=None, settled_at=now, **structs.asdict(asked))
    arrival = answers.make_arrival(report, number, now)
    return await _await_end(outside, report, [(arrival, Pending(report))])


async def _arrive(
    outside: Outside,
    number: int,
    kind: Literal["credit", "return"],
    report: CreditReport | ReturnReport,
    key: str | None,
    how: Behaviour,
) -> Arrival:
    """Store what comes from outside, report it unless a rule prevents that, and wait for the acknowledgement."""
    if how.is_refused:
        raise SandboxUnavailable("a fault rule says that the network cannot be reached")
    if how.dated_back_s is not None:
        dated_at = report.reported_at - timedelta(seconds=how.dated_back_s)
        report = msgspec.structs.replace(report, settled_at=dated_at)
    delay_ms = OVERTAKEN_BY_MS if how.is_early else how.delay_ms or 0
    due_at = report.reported_at + timedelta(milliseconds=delay_ms)
    ends_after_ms = outside.two_steps_ms or None if how.ends_after_ms is None else how.ends_after_ms
    first, last = report, None
    if isinstance(report, CreditReport) and ends_after_ms is not None:
        first, last = answers.split_credit(report, how)
    # If a payment is lost on its way in, the network rejects it in the end; the payer gets no answer.
    code = how.code if how.arrives else "AB03"
    arrival = NewArrival(
        number=number,
        id=report.report_id,
        kind=kind,
        original_id=report.original_end_to_end_id if isinstance(report, ReturnReport) else None,
        amount_cents=report.amount_cents,
        key=key,
        report=msgspec.json.encode(first).decode(),
        taken_at=report.reported_at,
        due_at=due_at,
        code=code,
        is_due=code is not None,
        is_open=code is None,
        next_report=None if last is None else msgspec.json.encode(last).decode(),
        next_after_ms=ends_after_ms,
    )
    if code is not None:
        await outside.arrivals.ask([(arrival, None)])
        return _arrival(report, "ERROR", code) if how.arrives else _arrival(report, "PROCESSING")
    pending = Pending(msgspec.structs.replace(first, reported_at=due_at), max(how.reports_count, 1))
    written = [(arrival, pending)]
    if how.fee_cents is not None and isinstance(report, CreditReport):
        fee = (report.credit_party, how.fee_cents)
        written.append(answers.make_fee(fee, report.end_to_end_id, next(outside.network.arrival_numbers), due_at, waits=True))
    # A held payment is answered once the service has its report.
    wait_ms = delay_ms + (0 if isinstance(first, CreditHeld) else ends_after_ms or 0)
    is_waited_for = how.is_answered and wait_ms < ACKNOWLEDGED_TIMEOUT_S * 1000
    end = await _await_end(outside, report, written, is_waited_for=is_waited_for)
    is_held = isinstance(first, CreditHeld) and end.status == "CONFIRMED"
    return msgspec.structs.replace(end, status="PROCESSING") if is_held else end


async def _await_end(
    outside: Outside,
    report: CreditReport | ReturnReport | MovementReport,
    written: list[tuple[NewArrival, Pending]],
    *,
    is_waited_for: bool = True,
) -> Arrival:
    """Store the arrivals, all or nothing, and wait for the acknowledgement of this report."""
    # Before it is stored: the acknowledgement may come before this continues.
    with outside.network.expecting_acknowledgement(report.report_id) as acknowledgement:
        await outside.arrivals.ask(written)
        if not is_waited_for:
            return _arrival(report, "PROCESSING")
        return _arrival(report, *await find_end(acknowledgement))


async def find_end(acknowledgement: Awaitable[str | None]) -> tuple[ArrivalStatus, str | None]:
    """Return how a reported arrival ends, once the service has acknowledged it: with a code, if the service refuses it."""
    try:
        async with asyncio.timeout(ACKNOWLEDGED_TIMEOUT_S):
            code = await acknowledgement
    except TimeoutError:
        return "PROCESSING", None
    return "CONFIRMED" if code is None else "ERROR", code


def _arrival(report: CreditReport | ReturnReport | MovementReport, status: ArrivalStatus, code: str | None = None) -> Arrival:
    return Arrival(id=report.report_id, amount_cents=report.amount_cents, status=status, code=code)


async def _make_dynamic_code(outside: Outside, new: NewQrCode, key: str) -> str:
    if new.amount_cents is None:
        raise SandboxRefusal("invalid", "amount: a dynamic code needs one")
    number = next(outside.code_numbers)
    txid = new.txid or outside.chance.text(32, "txid", number)
    if not identifiers.is_txid(txid):
        raise SandboxRefusal("invalid", "txid: must be 26 to 35 letters and digits in a dynamic code")
    token = outside.chance.uuid("token", number).hex
    code = MerchantCode(txid=txid, key=key, amount_cents=new.amount_cents, created_at=outside.clock.now(), is_paid=False)
    if not await directory.insert_code(outside.pool, number, token, code):
        raise SandboxRefusal("invalid", "txid: another merchant's code has this txid already")
    return token


async def _find_entry(outside: Outside, key: str) -> DirectoryEntry | None:
    return next(iter(await find_entries(outside, {key})), None)


async def _find_behaviour(outside: Outside, message: Message) -> Behaviour:
    if not outside.faults.rules:
        return behaviour.USUAL
    # Stored before anything is answered: a used-up rule stays so after a crash.
    how = outside.faults.behaviour_of(message)
    await save_faults(outside.pool, outside.faults)
    return behaviour.USUAL if how is None else how


async def _check_answers(how: Behaviour) -> None:
    """Wait as long as the rule requires, and fail if it withholds the answer."""
    if how.is_refused or not how.is_answered:
        raise SandboxUnavailable("a fault rule keeps the network from answering this")
    await asyncio.sleep((how.delay_ms or 0) / 1000)


def make_network_id(outside: Outside, letter: Literal["E", "D", "M", "I"], number: int) -> str:
    return f"{letter}{directory.ISPB}{outside.clock.now():%Y%m%d%H%M}{outside.chance.text(11, letter, number)}"


async def decide_suspect_credit(outside: Outside, asked: OutsideVerdict) -> Arrival:
    """Release a payment that is held, or return it to its payer."""

    async def write(connection: PoolConnectionProxy, now: datetime) -> CreditReport:
        found = await connection.fetchrow(_FIND_HELD, asked.end_to_end_id)
        # The decision by time may have left already.
        if found is None or found["is_due"] or found["due_at"] <= now:
            raise SandboxRefusal("unknown", "end_to_end_id: no payment of this name is held as suspect")
        report = _judge(found, asked)
        await connection.execute(_DECIDE_HELD, asked.end_to_end_id, msgspec.json.encode(report).decode(), now)
        return report

    with outside.network.expecting_acknowledgement(asked.end_to_end_id) as acknowledgement:
        report = await outside.network.change(write)
        status, code = await find_end(acknowledgement)
    return Arrival(id=report.end_to_end_id, amount_cents=report.amount_cents, status=status, code=code)


def _judge(found: asyncpg.Record, asked: OutsideVerdict) -> CreditReport:
    planned = _decode_held(found["report"])
    fields = structs.asdict(planned)
    fields.pop("code", None)
    if asked.verdict == "return":
        return CreditCancelled(**fields, code=behaviour.SUSPECT_CODE)
    return CreditReport(**fields)
