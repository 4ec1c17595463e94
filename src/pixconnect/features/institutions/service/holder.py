"""Which account at an institution a holder's money lies on."""

from __future__ import annotations

from msgspec import structs

from pixconnect.features.institutions.service.account import find_account, put_on_account
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.flows.holder import NewHolder, make_holder
from pixconnect.kernel.rules.holder import Holder
from pixconnect.kernel.tables import holder as holder_store


async def create_holder_on_account(context: Operator, new: NewHolder, name: str) -> Holder:
    """Open a holder on an account at an institution; errors as in ``create_holder`` and ``put_on_account``."""
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, name)
        holder = await make_holder(context, connection, new)
        await put_on_account(connection, account, holder.id, field="tax_id")
    return structs.replace(holder, institution_id=account.id)


async def move_holder(context: Operator, holder_id: int, name: str) -> None:
    """Put a holder that has never had anything on an account.

    Raises:
        BadRequest: It has had money, payments or charges, or is of another owner.
        NotFound: There is no such holder, or no such account.
    """
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, name)
        before = await holder_store.find(connection, holder_id)
        await put_on_account(connection, account, holder_id)
        after = await holder_store.find(connection, holder_id)
        if after != before:
            await audit.record(context, connection, "holder set", f"holder {holder_id}", before=before, after=after)
