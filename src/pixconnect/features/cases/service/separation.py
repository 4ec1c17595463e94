"""Separates lines of an institution's statement from records that are not theirs: by two operators.

::

    joined to a transfer, refund or sum    ──► separated    nothing moves; only another answer ends it
    posted by the answer ``counts``        ──► struck       the opposite of its movement is posted
    set aside by the answer ``aside``      ──► as before    it waits again for the reason that it had

A confirmation is one transaction, which also reopens the days of the lines and of their records: the worker judges them and
opens their cases, even if this process dies after it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.service.answer import LINES_MAX, OURS_APART_MAX
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import LineKey, RecordedItem
from pixconnect.features.institutions.service.account import found, name_account
from pixconnect.features.institutions.service.proposals import confirming, record_confirmed
from pixconnect.features.institutions.service.statement import settle_if_free
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables import statement_file as line_store
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.service import StruckItem, take_back_struck
from pixconnect.kernel.flows.audit import make_proposal, propose
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.writing.batch import Batch
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_JOINED: Final = ("transfer", "refund", "sum", "movement")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, str]).decode


async def propose_separation(context: Operator, name: str, item_ids: Sequence[str]) -> Proposal:
    """Propose to separate lines of an account; nothing changes before another operator confirms it.

    Raises:
        NotFound: There is no such account.
        BadRequest: A line is unknown, or joined to nothing or by its own name; or the account is closed.
    """
    async with write_alone(context.pool) as connection:
        account = found(await account_store.find_named(connection, name), name)
        await proposal_store.lock_account(connection, account.id)
        items = await _find(connection, account, item_ids)
        contents = dict(lines=_encode({item.item_id: _name_record(item) for item in items}).decode())
        proposal = make_proposal(context, "separate", contents, institution_id=account.id)
        return await propose(context, connection, "case separate", name_account(name), proposal)


async def separate_lines(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Separate the lines, if each is still joined to the record that the proposal names."""
    named = _decode(str(proposal.contents["lines"]))
    async with confirming(context, proposal) as (connection, account):
        await item_store.lock_recording(connection, account.id)
        items = await _find(connection, account, list(named))
        if {item.item_id: _name_record(item) for item in items} != named:
            raise errors.BadRequest("lines: one is joined to another record by now: propose it again")
        moved = [item for item in items if item.joined_kind == "movement"]
        if moved:
            await _take_back(context, connection, account, moved)
        joined = [item for item in items if item.joined_kind not in (None, "movement")]
        keys = await item_store.separate(connection, account.id, [item.item_id for item in joined])
        keys |= {_key(item) for item in (*moved, *joined)}
        await item_store.take_back(connection, account.id, [one.item_id for one in items if one.joined_kind is None])
        # The days of the separated lines, and of the records that have no line any more.
        on = [item.day for item in items]
        around = (min(on) - OURS_APART_MAX, max(on) + OURS_APART_MAX)
        lines = await line_store.list_unmatched(connection, account.id, around)
        days = sorted({*on, *(line.day for line in lines if line.key in keys)})
        # In this transaction: a closed day without its line has no case.
        await day_store.write_states(connection, account.id, [(day, "open") for day in days], context.clock.now())
        await record_confirmed(context, connection, account, proposal, dict(lines=named))
    await settle_if_free(writes, account, min(days))


def is_separable(item: RecordedItem) -> bool:
    return item.waits == "no_money" or (item.joined_kind in _JOINED and item.joined_by != "name" and not item.is_reversal)


async def _find(connection: Connection, account: InstitutionAccount, item_ids: Sequence[str]) -> list[RecordedItem]:
    if account.state == "closed":
        raise errors.BadRequest(f"name: the account {account.name} is closed: nothing is posted on it any more")
    if not 0 < len(item_ids) <= LINES_MAX or len(set(item_ids)) < len(item_ids):
        raise errors.BadRequest(f"lines: name 1 to {LINES_MAX} lines, each once, and these are {len(item_ids)}")
    known = await item_store.find(connection, account.id, item_ids)
    for name in item_ids:
        item = known.get(name)
        if item is None or not is_separable(item):
            raise errors.BadRequest(
                f"lines: {name} is not joined by an answer, by resemblance, or as a sum, nor set aside by an answer: "
                f"`pixconnect institution days {account.name} --lines DAY` prints what lines are joined to"
            )
    items = [known[name] for name in item_ids]
    for item in items:
        if item.joined_kind is None:
            case = await case_store.find_named(connection, "day", account.id, item.day.isoformat())
            made = [] if case is None else await case_store.list_adjustments(connection, case.id)
            if sum(one.signed_cents for one in made if one.account == "available"):
                raise errors.BadRequest(f"lines: {item.day} was adjusted without {item.item_id}: undo the adjustment first")
    keys = [_key(item) for item in items if item.joined_kind is not None]
    _, reversed_, _ = await item_store.find_joined(connection, account.id, keys)
    if reversed_:
        raise errors.BadRequest("lines: the debit of one was given back, and goes with its order")
    return items


def _key(item: RecordedItem) -> LineKey:
    return errors.require(item.joined_kind, item.item_id), errors.require(item.joined_id, item.item_id)


def _name_record(item: RecordedItem) -> str:
    return "aside" if item.joined_kind is None else f"{item.joined_kind}:{item.joined_id}"


async def _take_back(
    context: Operator, connection: Connection, account: InstitutionAccount, moved: Sequence[RecordedItem]
) -> None:
    names = {item.item_id: errors.require(item.joined_id, item.item_id) for item in moved}
    holders: Mapping[str, int] = await movement_store.find_holders(connection, account.id, [*names.values()])
    struck = [
        StruckItem(
            holder_id=holders[names[item.item_id]],
            item_id=names[item.item_id],
            reason=f"Two operators have taken back the answer about {names[item.item_id]} of {item.day}",
        )
        for item in moved
    ]
    await take_back_struck(Batch(struck, connection, context.clock))
    await item_store.strike(connection, account.id, list(names))
