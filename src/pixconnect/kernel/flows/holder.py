"""Operators' actions on holders: open, limit, block and disable them, and register their Pix keys.

Functions for one holder raise ``NotFound`` if it does not exist.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import asyncpg
import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.audit import CONFIRM, confirm, make_proposal, propose
from pixconnect.kernel.flows.context import Context, Core, Operator, Writer, write_alone
from pixconnect.kernel.rules import holder as holder_rules
from pixconnect.kernel.rules import tax_id as tax_id_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import AccountType, Holder, KeyType, PixKey, check_quarantine
from pixconnect.kernel.rules.ledger import Funds
from pixconnect.kernel.rules.limit import (
    LIMIT_COLUMNS,
    cut_limits,
    find_raise_wait,
    find_stricter,
    read_limits,
    read_night_begin,
    write_limits,
)
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.rules.tax_id import STREET_LENGTH_MAX, check_state, read_postal_code
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables import proposal as proposal_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_TEXT_LENGTH_MAX = 255
_ADDRESS = ("street", "city", "state", "postal_code")
_APPROVALS = ("approve_above_cents", "approve_new_payees")


class SetLimits(Struct, frozen=True, kw_only=True):
    """Limits as operators set them; ``None`` is no limit."""

    transfer_limit_cents: int | UnsetType | None = UNSET  # maximum of one transfer
    day_limit_cents: int | UnsetType | None = UNSET
    night_limit_cents: int | UnsetType | None = UNSET


class NewHolder(SetLimits, frozen=True, kw_only=True):
    """In live mode each limit must be set."""

    name: str
    tax_id: str  # with or without punctuation
    branch: str  # 1 to 4 digits
    account_number: str  # 1 to 20 digits or capital letters, unique among holders
    city: str = "Sao Paulo"
    street: str | None = None  # with state and postal code: the address that charges with a due date show
    state: str | None = None
    postal_code: str | None = None
    account_type: AccountType = "TRANSACTIONAL"


class HolderChanges(SetLimits, frozen=True, kw_only=True):
    """Changes of a holder; unset fields stay as they are."""

    may_deposit: bool | UnsetType = UNSET
    may_withdraw: bool | UnsetType = UNSET
    may_lend: bool | UnsetType = UNSET  # shown with the balance, without any other effect
    night_begins_h: int | UnsetType = UNSET  # hour in Sao Paulo at which the night limit begins: one of two
    # Transfers above this wait for an operator's approval; ``None`` is none. Transfers that wait already stay.
    approve_above_cents: int | UnsetType | None = UNSET
    approve_new_payees: bool | UnsetType = UNSET  # whether transfers to payees that were never paid wait for approval
    street: str | UnsetType = UNSET  # with state and postal code, unless these are set already
    city: str | UnsetType = UNSET  # existing codes keep their city
    state: str | UnsetType = UNSET
    postal_code: str | UnsetType = UNSET
    is_disabled: bool | UnsetType = UNSET  # also locks out its clients


async def create_holder(context: Operator, new: NewHolder) -> Holder:
    """Open a holder with an empty account.

    Raises:
        AmountOutOfRange: A limit is below 0 or above what any Pix can have.
        InvalidTaxId: The tax id is neither a CPF nor a CNPJ.
    """
    async with write_alone(context.pool) as connection:
        return await make_holder(context, connection, new)


async def make_holder(context: Operator, connection: Connection, new: NewHolder) -> Holder:
    """Open a holder in the caller's transaction."""
    _check_text("name", new.name, _TEXT_LENGTH_MAX)
    address = _read_address(dict(street=new.street, city=new.city, state=new.state, postal_code=new.postal_code))
    limits = _read_limits(new, must_be_named=not context.policy.is_sandbox)
    tax_id = tax_id_rules.unmask_tax_id(new.tax_id)
    tax_id_rules.check_tax_id(tax_id, "tax_id", "with its mask or without")
    holder_rules.check_account(new.branch, new.account_number, context.policy.ispb)
    now = await service_now_to_write(context.clock, connection)
    holder = Holder(
        id=await holder_store.next_id(connection),
        name=new.name,
        tax_id=tax_id,
        branch=new.branch,
        account_number=new.account_number,
        account_type=new.account_type,
        created_at=now,
        **limits,
        city=address["city"] or new.city,
        street=address["street"],
        state=address["state"],
        postal_code=address["postal_code"],
    )
    if not await holder_store.insert(connection, holder):
        raise errors.InvalidAccount("account_number: another holder has it")
    await audit.record(context, connection, "holder create", f"holder {holder.id}", after=holder)
    return holder


async def read_holder(context: Operator, holder_id: int) -> Holder:
    return _found(await holder_store.find(context.pool, holder_id), holder_id)


async def read_holder_with_funds(context: Operator, holder_id: int) -> tuple[Holder, Funds]:
    next_ones = await holder_store.list_with_funds(context.pool, holder_id - 1, 1)
    found = next((found for found in next_ones if found[0].id == holder_id), None)
    return _found(found and found[0], holder_id), errors.require(found, "the holder was found")[1]


async def list_holders(context: Operator, after_id: int, count_max: int) -> list[tuple[Holder, Funds]]:
    return await holder_store.list_with_funds(context.pool, after_id, count_max)


async def set_holder(context: Operator, holder_id: int, changes: HolderChanges) -> Holder:
    """Change a holder's flags and limits, disable it or enable it again.

    A flag or a lower limit counts from the next request on. In live mode a higher limit waits as a proposal, and so does a
    change after which fewer transfers need approval. Disabling takes effect on every process within a second.

    Raises:
        AmountOutOfRange: A limit is below 0 or above what any Pix can have.
        BadRequest: A night may not begin at that hour.
    """
    wanted = {name: value for name, value in msgspec.structs.asdict(changes).items() if value is not UNSET}
    for field, value in wanted.items():
        if field.endswith("_cents"):
            _check_limit(field, value)
    if (night_begins_h := wanted.pop("night_begins_h", None)) is not None:
        wanted["night_begins_late"] = read_night_begin(night_begins_h, context.clock.now())
    is_disabled = wanted.pop("is_disabled", None)
    changes_address = not wanted.keys().isdisjoint(_ADDRESS)
    async with write_alone(context.pool) as connection:
        before = _found(await _lock_limits(connection, holder_id), holder_id)
        if is_disabled is not None:
            # Disabling twice keeps the first instant.
            since = before.disabled_at or context.clock.real_now()
            wanted["disabled_at"] = since if is_disabled else None
        if changes_address:
            wanted |= _read_address({name: wanted.get(name, getattr(before, name)) for name in _ADDRESS})
        holder = msgspec.structs.replace(before, **wanted)
        if not wanted.keys().isdisjoint(LIMIT_COLUMNS):
            holder = await _keep_higher(context, connection, before, holder)
        if not wanted.keys().isdisjoint(_APPROVALS):
            holder = await _keep_approvals(context, connection, before, holder)
        await holder_store.update(connection, holder)
        verb = "set" if is_disabled is None else "disable" if is_disabled else "enable"
        await audit.record(context, connection, f"holder {verb}", f"holder {holder_id}", before=before, after=holder)
    return holder


async def loosen_holder(context: Operator, writes: Writer, proposal: Proposal) -> None:
    """Activate higher limits or fewer approvals that a second operator confirmed; any later change has discarded them."""
    holder_id = errors.require(proposal.holder_id, "it is about a holder")
    async with write_alone(context.pool) as connection:
        before = _found(await _lock_limits(connection, holder_id), holder_id)
        # First: a trigger refuses what only one operator wants.
        await confirm(context, connection, proposal)
        if proposal.act == "limits":
            holder = before.with_limits(read_limits(proposal.contents))
        else:
            above, new_payees = map(proposal.contents.get, _APPROVALS)
            holder = structs.replace(before, approve_above_cents=above, approve_new_payees=new_payees == 1)
        await holder_store.update(connection, holder)
        await audit.record(context, connection, CONFIRM, f"holder {holder_id}", before=before, after=holder)


async def find_waiting(context: Core, holder_id: int) -> dict[str, Proposal]:
    return {one.act: one for one in await proposal_store.list_waiting(context.pool, holder_id=holder_id)}


async def act_on_due_limits(context: Context) -> None:
    async with write_alone(context.pool) as connection:
        await proposal_store.act_on_due_limits(connection)


async def add_pix_key(context: Operator, holder_id: int, key_type: KeyType, text: str | None) -> PixKey:
    """Register a Pix key of a holder; repeating it changes nothing.

    Raises:
        BadRequest: The holder was succeeded.
        InvalidPixKey: Its form is wrong, another holder has it, or payments to its earlier holder may be under way.
    """
    if text is None and key_type != "EVP":
        raise errors.BadRequest(f"key: missing; the service makes keys of the type EVP only, and this is to be {key_type}")
    key = holder_rules.parse_pix_key(str(context.entropy.uuid4()) if text is None else text, key_type)
    async with write_alone(context.pool) as connection:
        now = await service_now_to_write(context.clock, connection)
        _found(await holder_store.find(connection, holder_id), holder_id).check_not_succeeded()
        owner_id = (await holder_store.find_key_owners(connection, [key.key])).get(key.key)
        if owner_id is None:
            check_quarantine(await holder_store.read_quarantine(connection, key.key, holder_id))
            await holder_store.insert_key(connection, key.key, key.key_type, holder_id, now)
            # The insert leaves a key alone that another operator has given to a holder meanwhile.
            owner_id = (await holder_store.find_key_owners(connection, [key.key]))[key.key]
        if owner_id != holder_id:
            raise errors.InvalidPixKey("key: another holder has it")
        await audit.record(context, connection, "key add", f"holder {holder_id}", after=key)
    return key


class KeyRemoval(NamedTuple):
    """Deletes what a feature keeps for a key of a holder, in the transaction that removes the key."""

    forget: Callable[[Connection, int, str], Awaitable[object]]


async def remove_pix_key(context: Operator, holder_id: int, text: str) -> PixKey:
    """Remove a Pix key of a holder: within a second no process resolves it."""
    key = holder_rules.as_kept(text)
    async with write_alone(context.pool) as connection:
        _found(await holder_store.find(connection, holder_id), holder_id)
        # What is set for a key takes the same lock, so nothing is left for a removed key.
        await ledger_store.lock_balance(connection, holder_id)
        removed = await holder_store.remove_key(connection, key, holder_id)
        if removed is None:
            raise errors.NotFound(f"key: holder {holder_id} has no such key")
        for removal in gather("key_removals", KeyRemoval):
            await removal.forget(connection, holder_id, key)
        await audit.record(context, connection, "key remove", f"holder {holder_id}", before=removed)
    return removed


async def list_pix_keys(context: Core, holder_id: int) -> list[PixKey]:
    return await holder_store.list_pix_keys(context.pool, holder_id)


async def _lock_limits(connection: Connection, holder_id: int) -> Holder | None:
    """Lock a holder, so that all batches after the transaction use its changes: they hold its balance while they read them."""
    try:
        await ledger_store.lock_balance(connection, holder_id)
    except asyncpg.LockNotAvailableError:
        raise errors.ServiceUnavailable("the account is locked by another operation; nothing was done") from None
    return await holder_store.lock(connection, holder_id)


async def _keep_higher(context: Operator, connection: Connection, before: Holder, asked: Holder) -> Holder:
    """Store the raised part of a locked holder's new limits as pending, in place of earlier ones; return the rest.

    In the sandbox all changes act at once.
    """
    await proposal_store.forget(connection, "limits", holder_id=before.id)
    at_once = cut_limits(before.limits, asked.limits)
    if at_once == asked.limits or context.policy.is_sandbox:
        return asked
    # Its day would begin before it is visible. A reduction never waits for a clock.
    await service_now_to_write(context.clock, connection)
    waits = find_raise_wait(context.clock.real_now())
    raised = make_proposal(context, "limits", write_limits(asked.limits), holder_id=before.id, acts_after=waits)
    await propose(context, connection, "holder set", f"limits of holder {before.id}", raised)
    return asked.with_limits(at_once)


async def _keep_approvals(context: Operator, connection: Connection, before: Holder, asked: Holder) -> Holder:
    """Store a locked holder's lesser approvals as pending, all or none of them, as ``_keep_higher``."""
    await proposal_store.forget(connection, "approvals", holder_id=before.id)
    above = find_stricter(before.approve_above_cents, asked.approve_above_cents)
    is_fewer = above != asked.approve_above_cents or before.approve_new_payees > asked.approve_new_payees
    if not is_fewer or context.policy.is_sandbox:
        return asked
    contents = {name: int(value) for name in _APPROVALS if (value := getattr(asked, name)) is not None}
    fewer = make_proposal(context, "approvals", contents, holder_id=before.id)
    await propose(context, connection, "holder set", f"approvals of holder {before.id}", fewer)
    return structs.replace(asked, **{name: getattr(before, name) for name in _APPROVALS})


def _read_limits(new: NewHolder, *, must_be_named: bool) -> dict[str, Any]:
    # No holder of real money has no limits by oversight.
    limits: dict[str, Any] = {}
    for field in SetLimits.__struct_fields__:
        limit: int | UnsetType | None = getattr(new, field)
        if isinstance(limit, UnsetType) and must_be_named:
            raise errors.BadRequest(
                f"{field.removesuffix('_cents')}: missing; live mode wants every limit named, or --no-limits"
            )
        limits[field] = None if isinstance(limit, UnsetType) else _check_limit(field, limit)
    return limits


def _read_address(sent: dict[str, str | None]) -> dict[str, str | None]:
    """Check an address; besides the city, all of it must be given or nothing."""
    read = dict(sent)
    _check_text("city", sent["city"] or "", _TEXT_LENGTH_MAX)
    missing = [name for name in _ADDRESS if sent[name] is None]
    if missing and len(missing) < len(_ADDRESS) - 1:
        raise errors.BadRequest(f"{missing[0]}: missing; an address has street, city, state and postal code")
    if not missing:
        _check_text("street", sent["street"] or "", STREET_LENGTH_MAX)
        check_state(sent["state"] or "")
        read["postal_code"] = read_postal_code(sent["postal_code"] or "")
    return read


def _check_text(field: str, text: str, length_max: int) -> None:
    if not 1 <= len(text) <= length_max or not text.isprintable():
        raise errors.BadRequest(f"{field}: must have 1 to {length_max} printable characters")


def _check_limit(field: str, limit: int | None) -> int | None:
    if limit is not None and not 0 <= limit <= AMOUNT_MAX_CENTS:
        raise errors.AmountOutOfRange(f"{field}: must be from 0 to {AMOUNT_MAX_CENTS} cents")
    return limit


def _found(holder: Holder | None, holder_id: int) -> Holder:
    if holder is None:
        raise errors.NotFound(f"holder_id: there is no holder {holder_id}")
    return holder


async def read_as_former(context: Context, caller: Caller, account_number: str) -> Caller:
    """Return the caller as the holder of this account number: its own, or a predecessor's; ``NotFound`` for any other."""
    holder_id = await holder_store.find_in_family(context.pool, caller.holder_id, account_number)
    if holder_id is None:
        raise errors.NotFound("X-Account-Number: neither this holder nor one that it has succeeded has this account number")
    return structs.replace(caller, holder_id=holder_id)
