"""A small model of the money, written from the contract alone: what follows from the requests and answers.

It has no knowledge of the implementation. It reads the service's tables and the rail's (``Seen``), and fails if a cent,
a state or an event is not what the sums require.
"""

from collections import Counter
from typing import Final

from msgspec import Struct, field, structs

from support.both_sides import Kind, Seen, Thing

STEPS: Final = {
    "PROCESSING": {"CONFIRMED", "ERROR", "CANCELLED", "RETURNED"},
    "CONFIRMED": {"RETURNED"},
    "PENDING": {"APPROVED", "EXPIRED", "RETURNED", "REMOVED_BY_RECEIVER"},
    # After a new expiry it can be paid again.
    "EXPIRED": {"PENDING", "APPROVED", "RETURNED", "REMOVED_BY_RECEIVER"},
    "APPROVED": {"RETURNED"},
}
"""From each state to its possible next states; a refund goes straight to RETURNED."""

ANY_ENDING: Final = {
    "charge": {"PENDING", "APPROVED", "EXPIRED", "RETURNED", "REMOVED_BY_RECEIVER"},
    "transfer": {"CONFIRMED", "ERROR", "CANCELLED", "RETURNED"},
    "refund": {"RETURNED", "ERROR"},
}


class Asked(Struct, kw_only=True):
    """A request under an ``external_id``. ``told_id`` is the id in the answer; None without one, or if refused."""

    kind: Kind
    holder_id: int
    external_id: str
    amount_cents: int
    endings: set[str]
    told_id: int | None = None
    is_refused: bool = False
    is_free: bool = False  # a charge whose payer chooses the amount


class MoneyModel(Struct):
    """All requests, and every observed state."""

    asked: dict[tuple[Kind, int, str], Asked] = field(default_factory=dict)
    deposits: dict[int, Counter[int]] = field(default_factory=dict)
    maybe_deposits: dict[int, Counter[int]] = field(default_factory=dict)
    states: dict[tuple[Kind, int], str] = field(default_factory=dict)

    def ask(self, asked: Asked) -> Asked:
        self.asked[asked.kind, asked.holder_id, asked.external_id] = asked
        return asked

    def disturb(self) -> None:
        """A process dies or the rail misbehaves: open requests may end in any way, but only in one."""
        for asked in self.asked.values():
            if asked.told_id is None or self.states.get((asked.kind, asked.told_id), "PROCESSING") == "PROCESSING":
                asked.endings |= ANY_ENDING[asked.kind]

    def check(self, seen: Seen) -> None:
        """What holds at every instant."""
        self._check_asked(seen)
        for thing in seen.things:
            key = thing.kind, thing.id
            before = self.states.setdefault(key, thing.status)
            assert thing.status == before or thing.status in STEPS.get(before, ()), (before, thing)
            self.states[key] = thing.status
            assert current_events(thing) == expected_events(thing), thing
        for holder_id, counted in seen.deposits.items():
            known = self.deposits.get(holder_id, Counter())
            assert known <= counted <= known + self.maybe_deposits.get(holder_id, Counter()), (holder_id, counted)
        for holder_id, balance in seen.balances.items():
            check_balance(seen, holder_id, balance)
        for item in seen.moved:
            assert item.events == (None if item.code else "movement.posted"), item
        self._check_refunds(seen)

    def check_at_rest(self, seen: Seen) -> None:
        """What also holds when nothing is under way."""
        self.check(seen)
        assert seen.is_at_rest
        assert all(reserved == 0 for _, reserved, _ in seen.balances.values())
        for thing in seen.things:
            asked = self.asked.get((thing.kind, thing.holder_id, thing.external_id or ""))
            assert asked is None or thing.status in asked.endings | {"RETURNED"}, (thing, asked)
        self._check_both_sides(seen)

    def _check_asked(self, seen: Seen) -> None:
        ours = {(thing.kind, thing.holder_id, thing.external_id): thing for thing in seen.things if thing.external_id}
        assert len(ours) == sum(thing.external_id is not None for thing in seen.things), "an external_id stands twice"
        unasked = {key for key in ours.keys() - self.asked.keys() if not is_automatic(ours[key])}
        # The institution returns by itself because of a contest.
        unasked -= {key for key in unasked if key[0] == "refund" and key[2] == f"theirs:{ours[key].name}"}
        assert not unasked, f"nobody asked for {unasked}"
        for key, asked in self.asked.items():
            thing = ours.get(key)
            if thing is None:
                assert asked.told_id is None, f"acknowledged and lost: {asked}"
                continue
            assert not asked.is_refused, f"refused and done: {asked}"
            assert asked.told_id in {None, thing.id}, (asked, thing)
            assert asked.is_free or asked.amount_cents == thing.amount_cents, (asked, thing)

    def _check_refunds(self, seen: Seen) -> None:
        """Refunds never exceed the payment; a charge is paid once, by its amount."""
        returned: Counter[tuple[int, str]] = Counter()
        for thing in seen.things:
            if thing.kind == "refund" and thing.status != "ERROR":
                returned[thing.holder_id, thing.original or ""] += thing.amount_cents
        paid = {(thing.holder_id, thing.name): thing for thing in seen.things if thing.kind == "transfer"}
        for thing in filter(is_automatic, seen.things):
            original = paid[thing.holder_id, thing.original or ""]
            # A returned payment leaves no money and no paid charge.
            assert (thing.amount_cents, original.charge_id) == (original.amount_cents, None), thing
            assert thing.external_id == f"auto:{original.name}", thing
        for key, sum_cents in returned.items():
            assert paid[key].is_settled, key
            assert sum_cents <= paid[key].amount_cents, (key, sum_cents)
        charges = {thing.id: thing for thing in seen.things if thing.kind == "charge"}
        payers = [thing for thing in paid.values() if thing.charge_id is not None and thing.is_settled]
        assert len({payer.charge_id for payer in payers}) == len(payers), "a charge was paid twice"
        assert all(charges[payer.charge_id or 0].amount_cents == payer.amount_cents for payer in payers)
        approved = {charge.id for charge in charges.values() if charge.status in {"APPROVED", "RETURNED"}}
        assert approved == {payer.charge_id for payer in payers}

    def _check_both_sides(self, seen: Seen) -> None:
        """The service and the other side of the rail agree on every payment and every cent."""
        ours = {(thing.name, thing.direction): thing for thing in seen.things if thing.kind != "charge" and not thing.is_book}
        theirs = {(other.name, "IN" if other.is_arrival else "OUT"): other for other in seen.rail}
        for key, thing in ours.items():
            other = theirs.get(key)
            is_settled_there = other is not None and other.code is None
            assert thing.is_settled == is_settled_there, (thing, other)
            assert other is None or other.amount_cents == thing.amount_cents, (thing, other)
            if other is None:
                assert thing.status == "CANCELLED" or thing.code in {"NOT_HANDED_OVER", "NEVER_TAKEN"}, thing
        lost = [other for key, other in theirs.items() if other.code is None and key not in ours]
        assert not lost, f"settled there and unknown here: {lost}"
        moved_cents = sum(
            other.amount_cents if other.is_arrival else -other.amount_cents for other in seen.rail if other.code is None
        )
        assert {structs.replace(item, events=None) for item in seen.moved if item.code is None} == {
            item for item in seen.rail_moved if item.code is None
        }
        moved_cents += sum(item.change_cents for item in seen.rail_moved)
        known = {contest.name: contest for contest in seen.contests}
        assert known == {contest.name: contest for contest in seen.rail_contests}
        kept_cents = sum(available + reserved - owed for available, reserved, owed in seen.balances.values())
        kept_cents += sum(seen.blocked.values())
        assert kept_cents == moved_cents + sum(sum(counted.elements()) for counted in seen.deposits.values())


def is_automatic(thing: Thing) -> bool:
    """Whether it refunds a payment that the service could neither accept nor refuse."""
    return thing.kind == "refund" and (thing.external_id or "").startswith("auto:")


def check_balance(seen: Seen, holder_id: int, balance: tuple[int, int, int]) -> None:
    """Check a holder's available, reserved, owed and blocked cents against all movements and holds."""
    available, reserved, owed = balance
    blocked, held = seen.blocked[holder_id], seen.held.get(holder_id, 0)
    told = (holder_id, balance, blocked, held)
    assert (available + blocked - owed, reserved) == (expected := expected_funds(seen, holder_id)), (told, expected)
    # Received money first repays debts, then covers holds; the rest is available.
    assert min(available, owed) == 0, told
    assert blocked <= held, told
    assert blocked == held or available == 0, told


def expected_funds(seen: Seen, holder_id: int) -> tuple[int, int]:
    """A holder's funds minus debts, and the reserved cents: deposits and received money, less sent money."""
    funds, reserved = sum(seen.deposits.get(holder_id, Counter()).elements()), 0
    funds += sum(item.change_cents for item in seen.moved if item.holder_id == holder_id)
    for thing in seen.things:
        if thing.holder_id != holder_id or thing.kind == "charge":
            continue
        if thing.direction == "IN":
            # Suspect payments are received already, and blocked.
            is_held = thing.is_open and "transfer.in.held" in thing.events
            funds += thing.amount_cents if thing.is_settled or is_held else 0
        elif thing.is_open or thing.is_settled:
            funds -= thing.amount_cents
            reserved += thing.amount_cents if thing.is_open else 0
    return funds, reserved


def current_events(thing: Thing) -> list[str]:
    """Its events, without expiries that a new expiry undid, and without the event of a hold."""
    events = list(thing.events)
    if events[:2] == ["transfer.in.processing", "transfer.in.held"]:
        del events[1]
    while events[:3] == ["qrcode.pending", "qrcode.expired", "qrcode.pending"]:
        del events[:2]
    return events


def expected_events(thing: Thing) -> list[str]:
    """One for each state, in order. A return causes no event of the returned transfer or charge."""
    if thing.kind == "charge":
        ends = dict.fromkeys(("APPROVED", "RETURNED"), "approved")
        ends |= dict.fromkeys(("EXPIRED", "REMOVED_BY_RECEIVER"), "expired")
        return ["qrcode.pending", *(f"qrcode.{ends[status]}" for status in [thing.status] if status in ends)]
    prefix = f"{thing.kind}.{(thing.direction or '').lower()}"
    settled = "confirmed" if thing.kind == "transfer" else "returned"
    return [
        f"{prefix}.processing",
        *([] if thing.is_open else [f"{prefix}.{settled if thing.is_settled else 'error'}"]),
    ]
