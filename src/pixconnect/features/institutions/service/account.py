"""Operators' actions on accounts at institutions (add, show, pause, rotate, remove), and their holders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import asyncpg
from msgspec import Struct, structs

from pixconnect.features.allowances import tables as allowance_store
from pixconnect.features.allowances.rules import Allowance
from pixconnect.features.institutions.rules.account import AccountState, EndingCertificate, InstitutionAccount, may_lie_on
from pixconnect.features.institutions.rules.account_file import AccountDescription, ReadFile, check_name
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable
from pixconnect.features.institutions.service import open_accounts
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables import alarm as alarm_store
from pixconnect.features.institutions.tables import day as day_store
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS, show_reais
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.platform.base import errors
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool

# Few: each uses its own connection, and no account should wait long for its turn.
_PAUSED_AT_ONCE: Final = 4
_LASTING: Final = ("kind", "profile", "environment", "tax_id", "account")
_CHANGING: Final = ("base_url", "token_url", "authorities", "keys", "poll_s", "options")
"""What a file says about an account: it stays for good, or a rotation replaces it."""
_ADDRESSES: Final = ("base_url", "token_url", "authorities")  # of the latter, those that another operator confirms
STILL_TRIES_MAX: Final = 5  # maximum of tries to find a moment without movement, to begin the books in it


class ShownAccount(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    balance_here_cents: int
    last_reading_at: datetime | None
    last_failure: str | None  # of a reading since then
    holder_ids: Sequence[int]
    ending: Sequence[EndingCertificate]  # its certificates that expire soon
    waiting: Sequence[Proposal]  # proposals that wait for a second operator
    allowance: Allowance


async def add_account(
    context: Operator,
    open_institution: open_accounts.OpenInstitution,
    name: str,
    description: AccountDescription,
    house_id: int,
    opening_cents: int | None = None,
    read_file: ReadFile = open_accounts.read_no_file,
) -> InstitutionAccount:
    """Read an account's balance at the institution, and begin its books with that; the house is on it from then on.

    Args:
        opening_cents: Its balance, if the institution's API has none.
        read_file: Reads the secrets that stay in files.

    Raises:
        BadRequest: The name is taken or wrong, the installation is of another environment, or the house cannot be on it.
        NotFound: The holder does not exist.
        ServiceUnavailable: The institution gave no answer, or another account is being added; nothing was done.
    """
    check_name(name)
    if context.policy.is_sandbox:
        raise errors.BadRequest("institution: accounts at institutions are for live mode; in a sandbox there are faces")
    now = context.clock.real_now()
    account = InstitutionAccount(
        id=0,
        name=name,
        state="active",
        house_id=house_id,
        opened_at=now,
        opening_cents=0,
        revision=1,
        created_at=now,
        **{field: getattr(description, field) for field in (*_LASTING, *_CHANGING)},
    )
    async with context.pool.acquire() as connection:
        if await account_store.find_named(connection, name) is not None:
            raise errors.BadRequest(f"name: there is an account {name}")
        await _check_house(connection, description.tax_id, house_id)
    opened_at, cents = await _read_opening(context, open_institution(account, description.receiving), opening_cents)
    async with write_alone(context.pool) as connection:
        await _name_alone(connection)
        taken = await account_store.take_environment(connection, description.environment)
        if taken != description.environment:
            raise errors.BadRequest(
                f"environment: this installation is of {taken}, and all its accounts are: begin with another database"
            )
        number = await account_store.next_id(connection)
        account = structs.replace(account, id=number, opened_at=opened_at, opening_cents=cents)
        await open_accounts.refuse_same_account(connection, context.secret_box, account, description.receiving, read_file)
        sealed = open_accounts.seal_credentials(context.secret_box, context.sending_box, description, account.id)
        if not await account_store.insert(connection, account, sealed):
            raise errors.BadRequest(f"name: there is an account {name}")
        await put_on_account(connection, account, house_id)
        await audit.record(context, connection, "institution add", name_account(name), after=account)
    return account


async def list_institutions(context: Operator) -> list[ShownAccount]:
    async with context.pool.acquire() as connection:
        ending = await open_accounts.list_ending(connection, context.clock.real_now())
        return [await _show(connection, account, ending) for account in await account_store.list_all(connection)]


async def read_account(context: Operator, name: str) -> ShownAccount:
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        return await _show(connection, account, await open_accounts.list_ending(connection, context.clock.real_now()))


async def set_state(context: Operator, name: str, state: AccountState) -> InstitutionAccount:
    """Pause an account's outgoing money, or resume it; repeating it changes nothing."""
    async with write_alone(context.pool) as connection:
        before = found(await account_store.lock_named(connection, name), name)
        if before.state == "closed":
            raise errors.BadRequest(f"name: the account {name} is closed for good")
        if state == "active" and before.lost_at is not None:
            raise errors.BadRequest(
                f"name: the database has forgotten something of {name}: `pixconnect database recovered --institution {name}` "
                "resumes it"
            )
        # An operator may also pause an account that a loss has paused; that outlasts the loss.
        after = structs.replace(before, state=state, paused_because=None)
        if after != before:
            if state == "paused":
                await account_store.pause(connection, before.id)
            else:
                await account_store.set_state(connection, before.id, state)
                await alarm_store.end(connection, before.id, context.operator)
            verb = "resume" if state == "active" else "pause"
            await audit.record(context, connection, f"institution {verb}", name_account(name), before=before, after=after)
            return after
    return before


async def pause_all(context: Operator) -> tuple[Sequence[str], Sequence[str]]:
    """Pause outgoing money of all accounts but those closed for good.

    Returns:
        The paused ones, and those that may still send money, each with the reason.
    """
    names = [one.name for one in await account_store.list_all(context.pool) if one.state != "closed"]
    turns = asyncio.Semaphore(_PAUSED_AT_ONCE)

    async def pause(name: str) -> str | None:
        async with turns:
            try:
                await set_state(context, name, "paused")
            except (*DATABASE_FAILED, errors.PixConnectError) as error:
                # An account closed or removed meanwhile is reported too: the operator checks each.
                return f"{name} ({error or type(error).__name__})"
        return None

    failures = await asyncio.gather(*map(pause, names))
    paused = [name for name, failure in zip(names, failures, strict=True) if failure is None]
    return paused, list(filter(None, failures))


async def rotate_account(
    context: Operator, name: str, description: AccountDescription, read_file: ReadFile = open_accounts.read_no_file
) -> InstitutionAccount:
    """Replace an account's credentials, keys and options from a file; never its owner or institution.

    Other addresses or authorities are proposed, because credentials and orders would go to another server; an earlier proposal
    is discarded. Only a counterpart's are replaced at once.
    """
    async with write_alone(context.pool) as connection:
        await _name_alone(connection)
        before = found(await account_store.lock_named(connection, name), name)
        if before.state == "closed":
            raise errors.BadRequest(f"name: the account {name} is closed for good")
        for field in _LASTING:
            if getattr(before, field) != getattr(description, field):
                raise errors.BadRequest(f"{field}: is {getattr(before, field)!r} and stays so; add another account instead")
        changed = {field: getattr(description, field) for field in _CHANGING}
        after = structs.replace(before, revision=before.revision + 1, **changed)
        await open_accounts.refuse_same_account(connection, context.secret_box, after, description.receiving, read_file)
        await proposal_store.forget(connection, "rotate", institution_id=before.id)
        kept = {field: getattr(before, field) for field in _ADDRESSES}
        asked = {field: changed[field] for field in _ADDRESSES}
        if asked != kept and before.environment != "counterpart":
            proposal = audit.make_proposal(context, "rotate", asked, institution_id=before.id)
            await audit.propose(context, connection, "institution rotate", name_account(name), proposal)
            after = structs.replace(after, **kept)
        sealed = open_accounts.seal_credentials(context.secret_box, context.sending_box, description, before.id)
        await account_store.rotate(connection, after, sealed)
        await audit.record(context, connection, "institution rotate", name_account(name), before=before, after=after)
    return after


async def _name_alone(connection: Connection) -> None:
    """Lock the adding of accounts, and changes of their credentials, until this transaction has ended."""
    try:
        await account_store.name_alone(connection)
    except asyncpg.LockNotAvailableError:
        raise errors.ServiceUnavailable(
            "another account at an institution is being added or changed; nothing was done: try again in a moment"
        ) from None


async def remove_account(context: Operator, name: str) -> InstitutionAccount:
    """Remove an account without references in the last 90 days, with its credentials; older facts stay readable."""
    now = context.clock.real_now()
    async with write_alone(context.pool) as connection:
        account = found(await account_store.lock_named(connection, name), name)
        await refuse_use(connection, account, now)
        await account_store.remove(connection, account.id, now)
        await account_store.forget_callback(connection, account.id)
        await audit.record(context, connection, "institution remove", name_account(name), before=account)
    return account


async def refuse_use(connection: Connection, account: InstitutionAccount, now: datetime) -> None:
    if (use := await account_store.find_use(connection, account.id, now)) is not None:
        raise errors.BadRequest(f"name: the account {account.name} cannot be removed: {use}; pause it instead")


async def put_on_account(connection: Connection, account: InstitutionAccount, holder_id: int, field: str = "holder_id") -> None:
    """Put a holder on an account; it must never have had money, payments or charges on another one.

    Args:
        field: The operator's field that names the holder.

    Raises:
        BadRequest: It has, is the house of another account, or is of another owner.
        NotFound: The holder does not exist.
    """
    # The balance first, as in every batch. Then the holder, directly with the lock that the change needs: a charge that is
    # being created holds it too, and upgrading would deadlock.
    await ledger_store.lock_balance(connection, holder_id)
    locked = await holder_store.lock(connection, holder_id, alone=True)
    holder = errors.found(locked, f"holder_id: there is no holder {holder_id}")
    if holder.institution_id == account.id:
        return
    if not may_lie_on(account.tax_id, holder.tax_id):
        raise errors.BadRequest(
            f"{field}: the CPF, or the first eight characters of the CNPJ, are not those of the account's owner: only the "
            "owner's own money may lie on an account"
        )
    if (past := await holder_store.find_past(connection, holder_id)) is not None:
        way = f"`pixconnect holder succeed --holder-id {holder_id} --institution {account.name}` opens one there that goes on"
        raise errors.BadRequest(f"holder_id: holder {holder_id} stays where it is: {past}. {way}")
    await holder_store.set_institution(connection, holder_id, account.id)


async def find_account(connection: Connection | Pool, name: str) -> InstitutionAccount:
    """Find an account that is not closed, by name; ``NotFound``."""
    account = found(await account_store.find_named(connection, name), name, field="institution")
    if account.state == "closed":
        raise errors.BadRequest(f"institution: the account {name} is closed")
    return account


async def lock_recording(connection: Connection, account: InstitutionAccount) -> None:
    """Lock the recording of an account's lines until the transaction ends.

    Raises:
        BadRequest: It is closed.
    """
    await item_store.lock_recording(connection, account.id)
    # Read after the lock, which a closing holds: it has judged all recorded lines, and no other may follow.
    present = await account_store.find(connection, account.id)
    if present is None or present.state == "closed":
        raise errors.BadRequest(f"account: {account.name} is closed: no line is posted on it any more")


async def _read_opening(context: Operator, institution: Institution, stated_cents: int | None) -> tuple[datetime, int]:
    """Find a moment without movement, and the balance then: money around it might be counted twice, or not at all."""
    if institution.traits.has_balance == (stated_cents is not None):
        raise errors.BadRequest(
            "opening_balance: the institution reports it; omit it"
            if stated_cents is not None
            else "opening_balance: this institution's API has no balance: give the account's present one, in cents"
        )

    async def read_balance() -> int:
        cents = await institution.read_balance() if stated_cents is None else stated_cents
        if not 0 <= cents <= AMOUNT_MAX_CENTS:
            explanation = (
                "" if stated_cents is not None else f"; the institution reports {show_reais(cents)}, so nothing was added"
            )
            raise errors.BadRequest(f"opening_balance: must be from 0 to {AMOUNT_MAX_CENTS} cents{explanation}")
        return cents

    try:
        for _ in range(STILL_TRIES_MAX):
            at = context.clock.real_now()
            before = await read_balance()
            moved = [
                pix
                async for page in institution.list_received(at - timedelta(seconds=5), at + timedelta(minutes=1))
                for pix in page
            ]
            if not moved and await read_balance() == before:
                return at, before
            await asyncio.sleep(2)
    except InstitutionUnavailable as error:
        raise open_accounts.explain_to_operator(error, ", so nothing was added") from error
    finally:
        await institution.close()
    raise errors.ServiceUnavailable("money moves on the account all the time, so its books cannot begin now; nothing was added")


async def _check_house(connection: Connection, owner_tax_id: str, house_id: int) -> None:
    """Refuse early what ``put_on_account`` would refuse, before any call to the institution."""
    holder = errors.found(await holder_store.find(connection, house_id), f"house: there is no holder {house_id}")
    if holder.institution_id is not None:
        raise errors.BadRequest(f"house: holder {house_id} is on another account")
    if not may_lie_on(owner_tax_id, holder.tax_id):
        raise errors.BadRequest("house: its CPF or CNPJ is not that of the account's owner")


async def _show(connection: Connection, account: InstitutionAccount, ending: Sequence[EndingCertificate]) -> ShownAccount:
    near = await day_store.find(connection, account.id, "near")
    return ShownAccount(
        account=account,
        balance_here_cents=await account_store.sum_balance_here(connection, account.id),
        last_reading_at=near and near.ended_at,
        last_failure=near and near.failure,
        holder_ids=await account_store.list_lying_on(connection, account.id),
        ending=[one for one in ending if one.institution == account.name],
        waiting=await proposal_store.list_waiting(connection, institution_id=account.id),
        allowance=await allowance_store.read(connection, account.id),
    )


def found(account: InstitutionAccount | None, name: str, field: str = "name") -> InstitutionAccount:
    if account is None:
        raise errors.NotFound(f"{field}: there is no account {name} at an institution; `institution list` shows them")
    return account


def being_worked_on(account: InstitutionAccount) -> str:
    """Return why lines of an account cannot be settled or answered now."""
    return f"the statement of {account.name} is being worked on: try again in a moment"


def name_account(name: str) -> str:
    return f"institution {name}"
