"""Judges what has gone from one cell to the other: it left and arrived, once, with the same cents, or did neither. Pure.

A caller says for whom a transfer across was, so one that only left is known too. A refund across is one of such a transfer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from pixconnect.domain.frame.cell import cell_of_id
from support.both_sides import Kind, Thing
from support.chaos.history import Call

_Name = tuple[Kind, str]


class _Legs(Struct):
    """Both ends of one name on the network; of most names there is one here."""

    out: list[Thing] = field(default_factory=list)
    into: list[Thing] = field(default_factory=list)


def find_torn(things: Sequence[Thing], calls: Iterable[Call]) -> list[str]:
    """In words, each; things that are under way are told elsewhere, and judged here once they are not."""
    legs = _legs_of(things)
    payees = _payees_of(calls)
    crossing = _name_crossing(legs, payees)
    found: list[str] = []
    for name, ends in legs.items():
        found += [f"{len(each)} times: {each}" for each in (ends.out, ends.into) if len(each) > 1]
        if name in crossing and not any(thing.is_open for thing in (*ends.out, *ends.into)):
            found += _judge(ends, payees)
    for name, ends in legs.items():
        original = ("transfer", (ends.into or ends.out)[0].original or "")
        if name[0] == "refund" and original in crossing:
            found += _judge_refund(ends, legs[original])
    return found


def count_crossings(things: Sequence[Thing]) -> dict[str, int]:
    """How many payments and refunds went across, and had settled on both sides."""
    counts = dict.fromkeys(("payments across", "refunds across"), 0)
    for (kind, _), ends in _legs_of(things).items():
        if ends.out and ends.into and all(thing.is_settled for thing in (*ends.out, *ends.into)):
            counts["payments across" if kind == "transfer" else "refunds across"] += 1
    return counts


def _legs_of(things: Sequence[Thing]) -> dict[_Name, _Legs]:
    legs = defaultdict[_Name, _Legs](_Legs)
    for thing in things:
        if thing.kind != "charge" and not thing.is_book:
            ends = legs[thing.kind, thing.name]
            (ends.out if thing.direction == "OUT" else ends.into).append(thing)
    return dict(legs)


def _payees_of(calls: Iterable[Call]) -> dict[tuple[int, str], int]:
    """For whom a holder's transfer of a name was, where that is another cell's."""
    return {(call.holder_id, call.name): call.payee_id for call in calls if call.payee_id is not None}


def _name_crossing(legs: Mapping[_Name, _Legs], payees: Mapping[tuple[int, str], int]) -> set[_Name]:
    """Of the transfers, those between our own cells."""
    return {
        name
        for name, ends in legs.items()
        if name[0] == "transfer"
        if (ends.out and ends.into) or any((thing.holder_id, thing.external_id or "") in payees for thing in ends.out)
    }


def _judge(ends: _Legs, payees: Mapping[tuple[int, str], int]) -> list[str]:
    out, into = next(iter(ends.out), None), next(iter(ends.into), None)
    if out is None or not out.is_settled:
        return [f"arrived and never left: {out} {into}"] if into is not None and into.is_settled else []
    if into is None or not into.is_settled:
        return [f"left and never arrived: {out} {into}"]
    payee_id = payees.get((out.holder_id, out.external_id or ""))
    if into.holder_id != payee_id:
        return [f"arrived at another than {payee_id}: {out} {into}"]
    if cell_of_id(into.holder_id) == cell_of_id(out.holder_id):
        return [f"went over the rail in one cell: {out} {into}"]
    if (into.amount_cents, into.status) != (out.amount_cents, out.status):
        return [f"one side says another thing than the other: {out} {into}"]
    return []


def _judge_refund(ends: _Legs, original: _Legs) -> list[str]:
    """What was given back, by who was paid to who had paid."""
    if any(thing.is_open for thing in (*ends.out, *ends.into)):
        return []
    out, into = next(iter(ends.out), None), next(iter(ends.into), None)
    if out is None or not out.is_settled:
        return [f"given back by nobody: {out} {into}"] if into is not None and into.is_settled else []
    if into is None or not into.is_settled:
        return [f"given back to nobody: {out} {into}"]
    holders = [thing.holder_id for thing in (*original.out, *original.into)]
    if [into.holder_id, out.holder_id] != holders:
        return [f"given back to another than its payer: {out} {into}"]
    if into.amount_cents != out.amount_cents or into.original != out.original:
        return [f"one side gives back another thing than the other: {out} {into}"]
    return []
