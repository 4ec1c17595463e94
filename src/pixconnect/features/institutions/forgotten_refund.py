"""Refunds that a restored database has forgotten, found by the names under which they were asked for at institutions.

The institution lists them under these names, so they were recorded as made by the institution.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from pixconnect.features.institutions.accounts import INSTITUTIONS, explain_pause, is_lost
from pixconnect.features.institutions.rules.rail_memory import name_refund_at_institution
from pixconnect.features.institutions.tables import returns as return_store
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.source import Accounts
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.refund import NewRefund, Refund
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.platform.pool import Connection


class ForgottenRefunds(Accounts):
    async def find_forgotten(self, connection: Connection, batch: Sequence[NewRefund]) -> dict[int, Refund]:
        """The refunds that the same requests had made, by the ids of the new ones."""
        over = [(new, new.account_id) for new in batch if new.account_id is not None]
        if not over:
            return {}
        keys = await return_store.read_keys(connection, sorted({account_id for _, account_id in over}))
        first_ids = await holder_store.find_first(connection, {new.holder_id for new, _ in over})
        names = {
            name_refund_at_institution(keys[account_id], account_id, first_ids[new.holder_id], new.external_id): new
            for new, account_id in over
        }
        found = await return_store.find_made(connection, list(names), [new.holder_id for new in names.values()])
        return {names[name].refund_id: refund for name, refund in found.items()}

    async def find_forgotten_by_external_id(self, context: Context, caller: Caller, external_id: str) -> Refund | None:
        first_id, family = await holder_store.find_family(context.pool, caller.holder_id)
        for account_id, naming_key in (await return_store.read_keys_of_holders(context.pool, family)).items():
            name = name_refund_at_institution(naming_key, account_id, first_id, external_id)
            made = (await return_store.find_made(context.pool, [name], family)).get(name)
            if made is not None:
                return structs.replace(made, external_id=external_id)
        return None

    async def check_read(self, context: Context, caller: Caller) -> None:
        """Refuse as paused a refund of an unknown Pix, while an account was not read since the database was restored."""
        _, family = await holder_store.find_family(context.pool, caller.holder_id)
        for account_id in await return_store.read_keys_of_holders(context.pool, family):
            if await is_lost(context.port(INSTITUTIONS), account_id):
                raise await explain_pause(context.port(INSTITUTIONS), account_id)
