"""Which account at an institution a holder's money lies on."""

from __future__ import annotations

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.cell import cell_of_id
from pixconnect.domain.money.holder import Holder
from pixconnect.store.money import holder as holder_store
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.lone_write import write_alone
from pixconnect.usecases.frame.name_claim import check_claim, claim_account
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.institutions.account import find_account, put_on_account
from pixconnect.usecases.money.holder import NewHolder, make_holder


async def create_holder_there(context: OperatorContext, new: NewHolder, name: str) -> Holder:
    """Open a holder on an account at an institution; errors as in ``create_holder`` and ``put_on_account``."""
    claim = await claim_account(context, new.branch, new.account_number)
    async with write_alone(context.pool) as connection:
        account = await find_account(connection, name)
        holder = await make_holder(context, connection, new)
        await put_on_account(connection, account, holder.id)
        check_claim(claim)
    return structs.replace(holder, institution_id=account.id)


def refuse_other_cells_account(holder_id: int, name: str, account_in: int) -> int:
    """The cell of a holder, which is its account's too; ``BadRequest`` where the account is in another one."""
    own = cell_of_id(holder_id)
    if own != account_in:
        raise errors.BadRequest(
            f"institution: the account {name} is in another cell than holder {holder_id}, which stays in its own: open one "
            f"there by `pixconnect holder create --institution {name}`"
        )
    return own


async def move_holder(context: OperatorContext, holder_id: int, name: str) -> None:
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
