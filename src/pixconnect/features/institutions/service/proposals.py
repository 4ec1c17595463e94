"""Proposals about accounts at institutions, to which a second operator agrees: their locks, a key's release, and a closing.

Both a case's proposal and its confirmation lock the account's proposals first, and then the case, so they never deadlock.

An account whose institution is gone for good is closed by its final file::

    close: the file is read as any statement, it is the last evidence, and its balance is the books' ► a proposal
    confirm, by another: pause ► its charges end ► each holder's balance leaves by a movement ► closed

No line may wait and no money be invested: both at the proposal and at the confirmation, at its begin and at its end.

If the process is killed and the proposal confirmed again, it continues: the account is paused meanwhile, and each movement has
its own name. The proposed sums leave: if the books have moved since, the closing must be proposed again, with a file that
includes the movement.

A removed Pix key is released if its former holder's account can no longer be read. The confirmed proposal is the release:
``read_quarantine`` in the schema reads it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from msgspec import structs

from pixconnect.features.cases import tables as case_store
from pixconnect.features.cases.rules import Case
from pixconnect.features.cases.service.day_case import list_differences
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.joining import CLOSING_PREFIX, RecordedItem
from pixconnect.features.institutions.service.account import being_worked_on, find_account, found, name_account
from pixconnect.features.institutions.service.charge_change import note_removal, remove_locked
from pixconnect.features.institutions.service.day import find_unmatched, list_waiting
from pixconnect.features.institutions.service.statement import preview_file, record_file, settle_items
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables.pending_call import CHANGES, OPENINGS
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.service import post_statement_item
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import CONFIRM, check_waiting, confirm, make_proposal, propose
from pixconnect.kernel.flows.context import Operator, Writer, write_alone
from pixconnect.kernel.rules import holder
from pixconnect.kernel.rules.charge import announce_charge, expire_charge, may_be_changed, may_expire
from pixconnect.kernel.rules.holder import QUARANTINE
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.rail import MovementReport
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.tables.charge import CHARGES
from pixconnect.kernel.writing.batch import Batch
from pixconnect.kernel.writing.unit_of_work import begin_work
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO
from pixconnect.platform.pool import Connection

_CHARGES_AT_ONCE: Final = 256
_MOVED: Final = "the books have moved since it was proposed: propose it again, by a file that has that too"

_ACTS_ON_LINES: Final = frozenset(("answer", "separate", "adjust", "decide"))


async def lock_to_propose(connection: Connection, case_id: int) -> None:
    """Lock the proposals of a case's account, if the case exists and is about one."""
    known = await case_store.find(connection, case_id)
    if known is not None and known.institution_id is not None:
        await proposal_store.lock_account(connection, known.institution_id)


async def lock_case(connection: Connection, case_id: int) -> Case:
    locked = await case_store.lock(connection, [case_id])
    return errors.found(locked.get(case_id), f"case: there is none with the id {case_id}")


async def find_account_of(connection: Connection, case: Case) -> InstitutionAccount:
    for account in await account_store.list_all(connection):
        if account.id == case.institution_id:
            return account
    raise errors.NotFound(f"case: the account that {case.id} is about was removed")


async def lock_account_of(connection: Connection, proposal: Proposal) -> InstitutionAccount:
    """Lock a proposal's account, and its proposals."""
    account_id = errors.require(proposal.institution_id, "it is about an account")
    account = errors.found(await account_store.lock(connection, account_id), "code: its account was removed")
    await proposal_store.lock_account(connection, account_id)
    return account


@asynccontextmanager
async def confirming(context: Operator, proposal: Proposal) -> AsyncGenerator[tuple[Connection, InstitutionAccount]]:
    """Begin the transaction of the proposed action on a locked account; it also confirms the proposal.

    Raises:
        ServiceUnavailable: Another process works on the account's lines.
    """
    account_id = errors.require(proposal.institution_id, "it is about an account")
    async with write_alone(context.pool) as connection:
        # First, as in settling lines: a line is either judged and posted, or answered.
        if proposal.act in _ACTS_ON_LINES and not await day_store.lock_work(connection, account_id):
            account = errors.found(await account_store.find(connection, account_id), "code: its account was removed")
            raise errors.ServiceUnavailable(being_worked_on(account))
        account = await lock_account_of(connection, proposal)
        # First: triggers refuse what only one operator has agreed to.
        await confirm(context, connection, proposal)
        yield connection, account


async def record_confirmed(
    context: Operator, connection: Connection, account: InstitutionAccount, before: audit.State, after: audit.State
) -> None:
    """Audit the changes of a confirmation."""
    await audit.record(context, connection, CONFIRM, name_account(account.name), before=before, after=after)


async def propose_release(context: Operator, name: str, text: str) -> Proposal:
    """Propose to end the quarantine of a key that waits for a reading of an account.

    Raises:
        NotFound: The account does not exist.
        BadRequest: The key does not wait for it, or the account is read, so that the quarantine ends by itself.
    """
    key = holder.as_kept(text)
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        quarantine = await holder_store.read_quarantine(connection, key, None)
        if quarantine is None or account.name not in quarantine.unread:
            raise errors.BadRequest(f"key: does not wait for a reading of {name}")
        near = await day_store.find(connection, account.id, "near")
        if account.is_read and near is not None and near.ended_at > context.clock.real_now() - QUARANTINE:
            raise errors.BadRequest(
                f"name: {name} is read, so the key is free once a whole reading has ended that began after "
                f"{(quarantine.removed_at + QUARANTINE).isoformat()}"
            )
        proposal = make_proposal(context, "release", dict(key=key), institution_id=account.id)
        return await propose(context, connection, "institution release", name_account(name), proposal)


async def release_key(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Release the key, by the confirmation alone."""
    async with confirming(context, proposal) as (connection, account):
        await record_confirmed(context, connection, account, proposal, proposal)


async def change_addresses(context: Operator, writes: Writer, proposal: Proposal) -> None:
    async with confirming(context, proposal) as (connection, account):
        after = await account_store.set_addresses(connection, account.id, proposal.contents)
        await record_confirmed(context, connection, account, account, errors.require(after, "it is locked"))


async def propose_closing(context: Operator, writes: Writer, name: str, content: bytes) -> Proposal:
    """Read the account's final file, and propose to close it; nothing else changes before another operator confirms.

    Raises:
        NotFound: The account does not exist.
        BadRequest: It is closed, the file is ambiguous or not the last evidence, its closing balance is missing or differs
            from the books, money is invested, or a line waits.
    """
    account = await find_account(context.pool, name)
    if await preview_file(context, name, content) is not None:
        raise errors.BadRequest(f"statement: no file of its form is confirmed: `institution statement {name}` shows it")
    recorded = await record_file(context, name, content)
    if recorded.closing_cents is None:
        raise errors.BadRequest("statement: the file has no closing balance, so it is not final")
    # Posted first, so that the proposed balance includes all of the file's lines.
    await settle_items(writes, account)
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        taken = [cents for _, cents in (await account_store.list_left(connection, account.id)).values()]
        here_cents = await account_store.sum_balance_here(connection, account.id) + sum(taken)
        # A file may name days to come, and shows nothing of them.
        last_on = min(recorded.last_on, recorded.known_until)
        final = last_on, recorded.closing_cents, recorded.read_at
        await _refuse_open_ends(context, connection, account, final, "statement: ")
        if here_cents != recorded.closing_cents:
            raise errors.BadRequest(
                f"statement: its balance is {recorded.closing_cents} cents, and that of the books {here_cents}: "
                "record the missing facts, or adjust it by its case"
            )
        contents = dict[str, str | int](
            last_on=last_on.isoformat(), closing_cents=recorded.closing_cents, balance_here_cents=here_cents
        )
        proposal = make_proposal(context, "close", contents, institution_id=account.id)
        return await propose(context, connection, "institution close", name_account(name), proposal)


async def close_account(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Execute the proposal: end everything on the account, move the balance out, and stop all calls."""
    last_on = date.fromisoformat(str(proposal.contents["last_on"]))
    last_at = datetime.combine(last_on + timedelta(days=1), time(0), SAO_PAULO)
    final = last_on, int(proposal.contents["closing_cents"]), proposal.proposed_at
    proposed_cents = int(proposal.contents["balance_here_cents"])
    async with write_alone(context.pool) as connection:
        account = await lock_account_of(connection, proposal)
        if account.state == "closed":
            raise errors.BadRequest(f"name: the account {account.name} is closed for good")
        await check_waiting(context, connection, proposal)
        if await account_store.has_difference(connection, account.id):
            raise errors.BadRequest("confirm: the account has an adjustment: reverse it or write it off, by its case")
        await _refuse_open_ends(context, connection, account, final, "confirm: ")
        lying = await account_store.list_left(connection, account.id)
        await _refuse_orders(writes, list(lying))
        if sum(left_cents + taken_cents for left_cents, taken_cents in lying.values()) != proposed_cents:
            raise errors.BadRequest(f"confirm: {_MOVED}")
        # Other processes see it within a second; their readings and openings until then are handled at the end.
        await account_store.pause(connection, account.id)
        await _give_up(connection, account)
    # In parts, each in a separate transaction: after a crash the rest is still pending, and is found again.
    while await _end_charges(context, account, last_at):
        pass
    for holder_id, (left_cents, _) in lying.items():
        await _check_left_money(writes, account, holder_id, left_cents)
    async with write_alone(context.pool) as connection:
        before = await lock_account_of(connection, proposal)
        # Nothing begins on the account while we hold its lock.
        await _give_up(connection, account)
        # Until the end, so that a line is either seen here or refused.
        await _refuse_open_ends(context, connection, account, final, "confirm: the account is paused, and ")
        if await account_store.has_money(connection, account.id):
            raise errors.BadRequest(f"confirm: the account is paused, and {_MOVED}")
        if await charge_store.list_pending_of_account(connection, account.id, 1):
            raise errors.BadRequest("confirm: a charge was opened meanwhile: the account is paused; confirm again")
        # First: a trigger refuses what only one operator has agreed to.
        await confirm(context, connection, proposal)
        await account_store.set_state(connection, account.id, "closed")
        await record_confirmed(context, connection, account, before, structs.replace(before, state="closed"))


async def _refuse_open_ends(
    context: Operator, connection: Connection, account: InstitutionAccount, final: tuple[date, int, datetime], where: str
) -> None:
    """Refuse while money may stay at the institution that left the books; locks the recording of lines."""
    # The last day of the final file, the balance at its end, and when it was the last evidence.
    await item_store.lock_recording(connection, account.id)
    if invested_cents := await day_store.read_position(connection, account.id):
        raise errors.BadRequest(f"{where}{invested_cents} cents of the account are invested: redeem them first")
    if later_on := await day_store.find_stated_beyond(connection, account.id, *final):
        raise errors.BadRequest(
            f"{where}the file ends on {final[0]} with {final[1]} cents, and another file or balance of {later_on} is recorded: "
            "propose it by the last file"
        )
    if waiting := await _find_waiting(context, connection, account):
        raise errors.BadRequest(
            f"{where}line {waiting.item_id} of {waiting.day} waits: answer it, or close the case of its day with a reason"
        )


async def _find_waiting(context: Operator, connection: Connection, account: InstitutionAccount) -> RecordedItem | None:
    """Find a line that waits, except in a day's case that operators have closed with a reason, as it still is."""
    if not (waiting := await list_waiting(connection, account.id, None)):
        return None
    span = await find_unmatched(connection, account, context.clock.now())
    asked = {item.item_id for item in span.items}
    present = {one.name: (one.amount_cents, one.facts) for one in list_differences(account, span)}
    for item in waiting:
        case = await case_store.find_named(connection, "day", account.id, item.day.isoformat())
        if case is None or case.ended_as != "closed":
            return item
        # Earlier days are no longer compared.
        if item.day >= span.since and (item.item_id not in asked or present.get(case.name) != (case.amount_cents, case.facts)):
            return item
    return None


async def _give_up(connection: Connection, account: InstitutionAccount) -> None:
    await OPENINGS.give_up_all(connection, account.id)
    await CHANGES.give_up_all(connection, account.id)


async def _refuse_orders(context: Writer, holder_ids: Sequence[int]) -> None:
    for holder_id in holder_ids:
        balance = await ledger_store.find_balance(context.pool, holder_id)
        if balance is not None and balance.reserved_cents:
            raise errors.BadRequest(f"confirm: holder {holder_id} has open orders, which must end first")
        if balance is not None and balance.blocks_count:
            raise errors.BadRequest(f"confirm: money of holder {holder_id} is blocked, which must end first")


async def _end_charges(context: Operator, account: InstitutionAccount, last_at: datetime) -> int:
    """Expire charges that ended before the final file, and remove the rest, now unpayable; return their number."""
    ended = 0
    async with write_alone(context.pool) as connection:
        pending = await charge_store.list_pending_of_account(connection, account.id, _CHARGES_AT_ONCE)
        charges, _ = await charge_store.lock(connection, pending)
        work = await begin_work(Batch[Any]((), connection, context.clock))
        for charge in charges.values():
            if may_expire(charge, min(work.now, last_at)):
                after = expire_charge(charge, max(work.now, charge.modified_at))
                work.move(CHARGES, charge, after)
                work.announce(announce_charge, after, "qrcode.expired")
            elif may_be_changed(charge):
                await note_removal(connection, charge, "REMOVED_BY_PSP", context.clock.real_now())
                remove_locked(work, charge, "REMOVED_BY_PSP")
            else:
                continue
            ended += 1
        await work.write()
    return ended


async def _check_left_money(writes: Writer, account: InstitutionAccount, holder_id: int, left_cents: int) -> None:
    if not left_cents:
        return
    number = 0
    # An interrupted confirmation may have posted one, and more may have come in since: each has its own name.
    while await movement_store.find_items(writes.pool, [(holder_id, _name_item(account, holder_id, number))]):
        number += 1
    item_id = _name_item(account, holder_id, number)
    # After its name: if another confirmation posts meanwhile, either the balance or the name shows it.
    balance = await ledger_store.find_balance(writes.pool, holder_id)
    # One of the two is zero.
    if balance is None or balance.available_cents - balance.deficit_cents != left_cents:
        raise errors.BadRequest(f"confirm: the account is paused, and {_MOVED}")
    report = MovementReport(
        report_id=item_id,
        item_id=item_id,
        party=(await writes.directory.read_account(holder_id)).party,
        kind="other",
        direction="OUT" if left_cents > 0 else "IN",
        amount_cents=abs(left_cents),
        description=f"{account.name} is closed",
        settled_at=writes.clock.now(),
    )
    await post_statement_item(writes, holder_id, report)


def _name_item(account: InstitutionAccount, holder_id: int, number: int) -> str:
    return f"{CLOSING_PREFIX}{account.id}:{holder_id}:{number}"
