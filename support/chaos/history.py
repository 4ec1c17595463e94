"""Judge whether the answers to callers are possible, given the tables at the end. Pure.

The entries of a holder that change current funds are numbered without gaps, so they give the order of events. Each
amount of a deposit or payment is used once, so an entry identifies its request. Then:

- everything acknowledged exists once, under one id, and as requested; nothing refused exists;
- nothing exists that was not requested, and a later look at an acknowledged resource finds it;
- a read fits between two entries: after everything known when it began, and before everything that began after its end;
  no read shows less than an earlier one; the reserved balance is what was under way;
- no state goes back.

Without an answer a caller knows nothing: the request may have taken effect once, and that is no contradiction.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct, field

from support.both_sides import Thing
from support.money_model import STEPS

CallKind = Literal["charge", "transfer", "refund", "deposit", "payment", "balance", "statement", "look"]

NAMED: Final = frozenset({"charge", "transfer", "refund"})  # requests with a name, which may be repeated
NO_ANSWER: Final = 0
NOTHING_DONE: Final = frozenset({401, 429, 503})
UNKNOWN: Final = frozenset({NO_ANSWER, 504})


class Call(Struct, frozen=True, kw_only=True):
    """One request and its answer. Instants are from the caller's own monotonic clock.

    Attributes:
        name: The external id or txid; of a look, the id that was read.
        ended_s: Infinite without an answer: the request may take effect at any time.
        status: The HTTP status, or ``NO_ANSWER``.
        said: The code of a refusal.
        state: The status in the answer.
        cents: Current funds, or a statement's closing balance.
        reserved_cents: The reserved part of current funds.
        lines_count: The number of a statement's lines.
        digest: Of a statement's lines, by ``digest_of``.
    """

    holder_id: int
    kind: CallKind
    name: str = ""
    amount_cents: int = 0
    began_s: float
    ended_s: float
    status: int
    code: str = ""
    said: str = ""
    id: int | None = None
    state: str = ""
    cents: int = 0
    reserved_cents: int = 0
    lines_count: int = 0
    digest: str = ""


class Entry(Struct, frozen=True, kw_only=True):
    holder_id: int
    number: int
    change_cents: int
    running_cents: int
    cause_kind: str = "deposit"
    cause_id: int = 0

    @property
    def is_deposit(self) -> bool:
        return self.cause_kind not in {"transfer", "refund"} and self.change_cents > 0


class History(Struct, frozen=True, kw_only=True):
    calls: Sequence[Call]
    things: Sequence[Thing]
    entries: Sequence[Entry]


class _Bounds(Struct):
    """The bounds by which the reads of one holder are judged."""

    entries: list[Entry]
    known: list[tuple[float, int]] = field(default_factory=list)
    """From this instant on, the entries up to this number exist."""
    begun: list[tuple[float, int]] = field(default_factory=list)
    """Before this instant, the entry of this number cannot exist."""
    orders: list[_Order] = field(default_factory=list)


class _Order(Struct, frozen=True):
    amount_cents: int
    begun_s: float
    told_s: float
    number: float  # the number of the entry that settles it; None if it never settled


def digest_of(changes: Iterable[tuple[int, int]]) -> str:
    """Digest the lines, each with its change and the balance after it."""
    return hashlib.sha256(",".join(f"{change}:{running}" for change, running in changes).encode()).hexdigest()[:16]


def find_contradictions(history: History) -> list[str]:
    """Return each contradiction in words; empty if the history is possible."""
    found = [f"a request failed: {call}" for call in history.calls if call.status == 500]
    found += [f"acknowledged, and not there: {call}" for call in history.calls if call.kind == "look" and call.status == 404]
    found += _judge_named(history)
    found += _judge_unnamed(history)
    found += _judge_origins(history)
    found += _judge_states(history)
    for holder_id, bounds in _bounds_of(history).items():
        found += _judge_order(bounds)
        found += _judge_reads(bounds, [call for call in history.calls if call.holder_id == holder_id])
    return found


def _judge_named(history: History) -> list[str]:
    """Check that everything acknowledged exists once and as requested, and that nothing refused exists."""
    things = defaultdict[tuple[str, int, str], list[Thing]](list)
    for thing in history.things:
        if thing.external_id is not None and thing.direction != "IN":
            things[thing.kind, thing.holder_id, thing.external_id].append(thing)
    found = [f"done twice: {there}" for there in things.values() if len(there) > 1]
    for key, calls in _by_name(history.calls).items():
        there = things.get(key, [])
        is_acknowledged = any(_is_done(call) for call in calls)
        # The central bank's API returns no id.
        told = {call.id for call in calls if _is_done(call) and call.id is not None}
        if len(told) > 1:
            found.append(f"one name and several ids: {calls}")
        if is_acknowledged and not there:
            found.append(f"acknowledged and lost: {calls}")
        found += [f"told as {told}, and is another: {thing}" for thing in there if told and thing.id not in told]
        found += [
            f"asked for {calls[0].amount_cents} cents: {thing}"
            for thing in there
            if thing.amount_cents != calls[0].amount_cents
        ]
        if there and not is_acknowledged and all(call.status not in UNKNOWN for call in calls):
            found.append(f"refused and done: {there} {calls}")
    return found


def _judge_unnamed(history: History) -> list[str]:
    """Check that acknowledged deposits and payments exist once, and the others at most once.

    Each deposit and each charge has its own amount. Only one charge may be paid by several requests.
    """
    there = Counter((entry.holder_id, entry.change_cents) for entry in history.entries if entry.is_deposit)
    there.update(
        (thing.holder_id, thing.amount_cents)
        for thing in history.things
        if thing.kind == "transfer" and thing.direction == "IN" and not thing.is_book and thing.is_settled
    )
    found: list[str] = []
    for (holder_id, _, amount_cents), calls in _by_amount(history.calls).items():
        count = there[holder_id, amount_cents]
        if count > 1:
            found.append(f"done {count} times: {calls}")
        if count < sum(map(_is_settled, calls)):
            found.append(f"acknowledged and lost: {calls}")
        if count and all(call.status not in UNKNOWN | {200, 500} for call in calls):
            found.append(f"refused, and done: {calls}")
    return found


def _judge_origins(history: History) -> list[str]:
    """Check that everything in the tables was requested."""
    named = _by_name(history.calls).keys()
    amounts = _by_amount(history.calls).keys()
    sent = {(thing.kind, thing.name, thing.amount_cents) for thing in history.things if thing.direction == "OUT"}
    found: list[str] = []
    for thing in history.things:
        if thing.direction == "IN":
            is_asked = (thing.kind, thing.name, thing.amount_cents) in sent if thing.is_book else True
            if not thing.is_book and thing.kind == "transfer":
                is_asked = (thing.holder_id, "payment", thing.amount_cents) in amounts
        else:
            is_asked = (thing.kind, thing.holder_id, thing.external_id or "") in named
        if not is_asked:
            found.append(f"nobody asked for {thing}")
    return found + [
        f"nobody put in {entry}"
        for entry in history.entries
        if entry.is_deposit and (entry.holder_id, "deposit", entry.change_cents) not in amounts
    ]


def _judge_states(history: History) -> list[str]:
    """Check that a resource never returns to an earlier state."""
    found: list[str] = []
    final = {(thing.kind, thing.id): thing.status for thing in history.things}
    looked = defaultdict[tuple[int, str], list[Call]](list)
    for call in history.calls:
        if call.kind == "look" and call.status == 200:
            looked[call.holder_id, call.name].append(call)
    for looks in looked.values():
        looks.sort(key=lambda call: call.began_s)
        for position, call in enumerate(looks):
            before = next((other for other in reversed(looks[:position]) if other.ended_s < call.began_s), None)
            if before is not None and not _may_become(before.state, call.state):
                found.append(f"a state goes back: {before} {call}")
        last = final.get(("transfer", looks[-1].id or 0))
        if last is None or not _may_become(looks[-1].state, last):
            found.append(f"told as {looks[-1]}, and is {last} in the end")
    return found


def _may_become(before: str, after: str) -> bool:
    return before == after or any(_may_become(step, after) for step in STEPS.get(before, ()))


def _bounds_of(history: History) -> dict[int, _Bounds]:
    entries = defaultdict[int, list[Entry]](list)
    for entry in sorted(history.entries, key=lambda each: each.number):
        entries[entry.holder_id].append(entry)
    asked = _by_name(history.calls)
    things = {(thing.kind, thing.id): thing for thing in history.things}
    unnamed = _by_amount(history.calls)
    found: dict[int, _Bounds] = {}
    for holder_id in {call.holder_id for call in history.calls} | entries.keys():
        bounds = found[holder_id] = _Bounds(entries=entries[holder_id])
        numbers = dict[tuple[str, int], int]()
        for entry in bounds.entries:
            kind, thing_id = entry.cause_kind, entry.cause_id
            numbers[kind, thing_id] = entry.number
            thing = things.get((kind, thing_id))
            is_paid = thing is not None and thing.direction == "IN" and not thing.is_book
            calls = asked.get((kind, holder_id, (thing.external_id if thing else None) or ""), [])
            if entry.is_deposit or is_paid:
                calls = unnamed.get((holder_id, "deposit" if entry.is_deposit else "payment", entry.change_cents), [])
            if calls:
                bounds.begun.append((min(call.began_s for call in calls), entry.number))
            bounds.known += [(call.ended_s, entry.number) for call in calls if _is_settled(call)]
        for (kind, of, _), calls in asked.items():
            if of != holder_id or kind == "charge":
                continue
            ids = [call.id for call in calls if _is_done(call)]
            bounds.orders.append(
                _Order(
                    amount_cents=calls[0].amount_cents,
                    begun_s=min(call.began_s for call in calls),
                    told_s=min((call.ended_s for call in calls if _is_done(call)), default=math.inf),
                    number=numbers.get((kind, ids[0] or 0), math.inf) if ids else math.inf,
                )
            )
        bounds.known.sort()
    return found


def _judge_order(bounds: _Bounds) -> list[str]:
    found: list[str] = []
    running_cents = 0
    for number, entry in enumerate(bounds.entries, 1):
        running_cents += entry.change_cents
        if (entry.number, entry.running_cents) != (number, running_cents):
            found.append(f"entry {number} should leave {running_cents} cents: {entry}")
    return found


def _judge_reads(bounds: _Bounds, calls: Sequence[Call]) -> list[str]:
    """Place each read at the first entry where it fits, since a later place would only restrict the next reads more."""
    reads = sorted(
        (call for call in calls if call.kind in {"balance", "statement"} and call.status == 200), key=lambda call: call.began_s
    )
    found: list[str] = []
    placed: list[tuple[float, int]] = []
    for read in reads:
        lowest = max((number for known_s, number in bounds.known if known_s < read.began_s), default=0)
        lowest = max(lowest, *(number for ended_s, number in placed if ended_s < read.began_s), 0)
        later = [number for begun_s, number in bounds.begun if begun_s > read.ended_s]
        places = range(lowest, min([*later, len(bounds.entries) + 1]))
        place = next((number for number in places if _fits(bounds, read, number)), None)
        if place is None:
            found.append(f"nothing that it can have seen from entry {lowest} on: {read}")
        else:
            placed.append((read.ended_s, place))
            # Most reads ended long ago, so the highest place of those is enough.
            if len(placed) > 64:
                ended_s, number = max(placed[:32], key=lambda each: each[1])
                placed[:32] = [(max(ended_s, *(each[0] for each in placed[:32])), number)]
    return found


def _fits(bounds: _Bounds, read: Call, number: int) -> bool:
    """Whether a read shows the books right after the entry of this number."""
    entries = bounds.entries
    if read.cents != (entries[number - 1].running_cents if number else 0):
        return False
    if read.kind == "statement":
        lines = ((entry.change_cents, entry.running_cents) for entry in entries[:number])
        return read.lines_count == number and read.digest == digest_of(lines)
    least_cents = sum(
        order.amount_cents for order in bounds.orders if order.told_s < read.began_s and number < order.number < math.inf
    )
    most_cents = sum(order.amount_cents for order in bounds.orders if order.begun_s < read.ended_s and number < order.number)
    return least_cents <= read.reserved_cents <= most_cents


def _by_name(calls: Iterable[Call]) -> dict[tuple[str, int, str], list[Call]]:
    found = defaultdict[tuple[str, int, str], list[Call]](list)
    for call in calls:
        if call.kind in NAMED:
            found[call.kind, call.holder_id, call.name].append(call)
    return found


def _by_amount(calls: Iterable[Call]) -> dict[tuple[int, str, int], list[Call]]:
    """Requests for deposits and payments, which have no name."""
    found = defaultdict[tuple[int, str, int], list[Call]](list)
    for call in calls:
        if call.kind in {"deposit", "payment"}:
            found[call.holder_id, call.kind, call.amount_cents].append(call)
    return found


def _is_done(call: Call) -> bool:
    return call.status in {200, 201}


def _is_settled(call: Call) -> bool:
    """Whether the answer shows that the money has moved."""
    return _is_done(call) and (call.kind == "deposit" or call.state in {"CONFIRMED", "RETURNED"})
