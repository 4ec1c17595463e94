"""A company changes its bank: a holder on the new account succeeds the one on the former account.

The former holder stays and starts nothing new: printed codes, returns, contests and refunds of its received Pix continue over
its account, and pending orders end there. Its clients, keys and webhooks become the successor's. Both are one family: a name
used by one is used for both, and either finds the other's resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.service.account import find_account, put_on_account
from pixconnect.features.webhooks.service.endpoint import show_in_audit
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.flows.holder import NewHolder, make_holder
from pixconnect.kernel.rules.access import Client, end_tokens_at
from pixconnect.kernel.rules.holder import Holder, PixKey
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.kernel.tables import ledger as ledger_store
from pixconnect.kernel.tables.clock import service_now_to_write
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

_ENDPOINTS_MAX = 10_000
_KEPT = ("may_deposit", "may_withdraw", "may_lend", "approve_above_cents", "approve_new_payees", "night_begins_late")


class Succession(Struct, frozen=True, kw_only=True):
    """A holder, its successor, and the successor's new possessions."""

    former: Holder
    heir: Holder
    keys: Sequence[PixKey]
    keys_to_claim: Sequence[str]
    """Keys that the new account's file does not name: until the new bank has them, payments arrive at the old one."""
    clients: Sequence[Client]
    endpoints_count: int


async def succeed_holder(context: Operator, former_id: int, institution: str, account_number: str, branch: str) -> Succession:
    """Open a holder on another account and move the former one's possessions to it; doing it twice changes nothing.

    Raises:
        NotFound: The holder or account does not exist.
        BadRequest: The holder is on that account, is disabled, was succeeded otherwise, or has charges that are being opened;
            or the account is closed, or of another owner.
        InvalidAccount: The account number is taken, or malformed.
        ServiceUnavailable: Another operation has the balance; nothing was done.
    """
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, institution)
        # The balance first, as in every batch. Two concurrent successions are serialized here.
        await ledger_store.lock_balance(connection, former_id)
        former = await holder_store.lock(connection, former_id, alone=True)
        if former is None:
            raise errors.NotFound(f"holder_id: there is no holder {former_id}")
        if former.successor_id is not None:
            return await _repeat(connection, former, account, account_number, branch)
        await _judge(connection, former, account)
        heir = await _open(context, connection, former, account, (account_number, branch))
        await _move(context, connection, former, heir)
        return await _show(connection, former_id, heir.id, account)


async def _repeat(
    connection: Connection, former: Holder, account: InstitutionAccount, account_number: str, branch: str
) -> Succession:
    """Return the same answer to the same request; ``BadRequest`` to any other."""
    heir_id = errors.require(former.successor_id, "it was succeeded")
    heir = errors.require(await holder_store.find(connection, heir_id), "no holder is ever removed")
    if (heir.institution_id, heir.account_number, heir.branch) != (account.id, account_number, branch):
        raise errors.BadRequest(
            f"holder_id: holder {former.id} was succeeded by holder {heir.id}, account number {heir.account_number}: succeed "
            "that one, if it changes its bank again"
        )
    return await _show(connection, former.id, heir.id, account)


async def _judge(connection: Connection, former: Holder, account: InstitutionAccount) -> None:
    if former.institution_id == account.id:
        raise errors.BadRequest(f"institution: holder {former.id} lies on the account {account.name}")
    if former.disabled_at is not None:
        raise errors.BadRequest(f"holder_id: holder {former.id} is disabled: enable it first, by `pixconnect holder enable`")
    for statement in gather("unfinished", str):
        if (unfinished := await connection.fetchval(statement, former.id)) is not None:
            raise errors.BadRequest(f"holder_id: {unfinished}; repeat this once that has ended")


async def _open(
    context: Operator, connection: Connection, former: Holder, account: InstitutionAccount, number: tuple[str, str]
) -> Holder:
    """Open the successor, as the former holder is but for its account's number and branch."""
    alike = NewHolder(**{name: getattr(former, name) for name in NewHolder.__struct_fields__})
    new = structs.replace(alike, account_number=number[0], branch=number[1])
    opened = await make_holder(context, connection, new)
    await put_on_account(connection, account, opened.id)
    flags = {name: getattr(former, name) for name in _KEPT}
    heir = structs.replace(opened, institution_id=account.id, **flags)
    await holder_store.update(connection, heir)
    await audit.record(context, connection, "holder succeed", f"holder {heir.id}", before=opened, after=heir)
    return heir


async def _move(context: Operator, connection: Connection, former: Holder, heir: Holder) -> None:
    keys = await holder_store.list_pix_keys(connection, former.id)
    clients = await access_store.list_of_holder(connection, former.id)
    endpoints = await endpoint_store.list_all(connection, former.id, None, _ENDPOINTS_MAX)
    now = await service_now_to_write(context.clock, connection)
    await holder_store.move_to_successor(connection, former.id, heir.id, end_tokens_at(context.clock.real_now()), now)
    after = await holder_store.find(connection, former.id)
    await audit.record(context, connection, "holder succeed", f"holder {former.id}", before=former, after=after)
    for key in keys:
        await audit.record(context, connection, "key add", f"holder {heir.id}", after=key)
    moved = {client.client_id: client for client in await access_store.list_of_holder(connection, heir.id)}
    for client in clients:
        name = client.client_id
        await audit.record(context, connection, "client set", f"client {name}", before=client, after=moved[name])
    for endpoint in endpoints:
        was, will_be = show_in_audit(endpoint), show_in_audit(structs.replace(endpoint, holder_id=heir.id))
        await audit.record(context, connection, "endpoint set", f"endpoint {endpoint.id}", before=was, after=will_be)


async def _show(connection: Connection, former_id: int, heir_id: int, account: InstitutionAccount) -> Succession:
    keys = await holder_store.list_pix_keys(connection, heir_id)
    return Succession(
        former=errors.require(await holder_store.find(connection, former_id), "no holder is ever removed"),
        heir=errors.require(await holder_store.find(connection, heir_id), "no holder is ever removed"),
        keys=keys,
        keys_to_claim=[key.key for key in keys if key.key not in account.keys],
        clients=await access_store.list_of_holder(connection, heir_id),
        endpoints_count=len(await endpoint_store.list_all(connection, heir_id, None, _ENDPOINTS_MAX)),
    )


async def create_holder_on_account(context: Operator, new: NewHolder, name: str) -> Holder:
    """Open a holder on an account at an institution; errors as in ``create_holder`` and ``put_on_account``."""
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, name)
        holder = await make_holder(context, connection, new)
        await put_on_account(connection, account, holder.id, field="tax_id")
    return structs.replace(holder, institution_id=account.id)


async def move_holder(context: Operator, holder_id: int, name: str) -> None:
    """Move a holder without any activity to an account.

    Raises:
        BadRequest: It has had money, payments or charges, or is of another owner.
        NotFound: The holder or account does not exist.
    """
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, name)
        before = await holder_store.find(connection, holder_id)
        await put_on_account(connection, account, holder_id)
        after = await holder_store.find(connection, holder_id)
        if after != before:
            await audit.record(context, connection, "holder set", f"holder {holder_id}", before=before, after=after)
