"""Reading what a former account has: a holder that succeeded another one, at another bank, sees both by one login."""

from __future__ import annotations

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.store.money import holder as holder_store
from pixconnect.usecases.frame.context import Context


async def read_as_former(context: Context, caller: Caller, account_number: str) -> Caller:
    """The caller as the holder of this account number: its own, or one that it has succeeded.

    Raises:
        NotFound: None of them has this account number.
    """
    holder_id = await holder_store.find_in_family(context.pool, caller.holder_id, account_number)
    if holder_id is None:
        raise errors.NotFound(
            "X-Account-Number: neither this holder nor one that it has succeeded has this account number"
        )
    return structs.replace(caller, holder_id=holder_id)
