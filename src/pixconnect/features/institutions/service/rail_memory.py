"""Stores an account rail's order calls under the fence of the account's slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from pixconnect.features.institutions.rules.institution import OpenAccount
from pixconnect.features.institutions.rules.rail_memory import (
    MemoryUnavailable,
    RailStep,
    name_at_institution,
    name_payee,
)
from pixconnect.features.institutions.tables import rail_step as step_store
from pixconnect.features.institutions.tables.rail_step import OrderNaming
from pixconnect.kernel.flows.settlement import Fence
from pixconnect.kernel.rules.holder import Party
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.database_failure import DATABASE_FAILED
from pixconnect.platform.pool import Connection, Pool

LOSS_REMEMBERED_FOR: Final = timedelta(days=35)
"""How long after a loss a replayed request may be one whose call was lost."""
_FAILED = (*DATABASE_FAILED, errors.PixConnectError)
_decode_party = msgspec.json.Decoder(Party).decode


class AccountFence:
    """Stands for the account's slot, in place of its orders' slots: one worker does all work of an account."""

    def __init__(self, fence: Fence, slot: int) -> None:
        self._fence = fence
        self._slot = slot

    def epochs_of(self, slots: Sequence[int]) -> Mapping[int, int]:
        return self._fence.epochs_of([self._slot])

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        await self._fence.fence(connection, [self._slot])


class StoredRailMemory:
    """The port ``features.institutions.rules.rail_memory.RailMemory``."""

    def __init__(self, pool: Pool, fence: Fence, clock: Clock, opened: OpenAccount) -> None:
        self._pool = pool
        self._fence = fence
        self._clock = clock
        self._institution_id = opened.account.id
        self._names_first = opened.institution.traits.names_first

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        try:
            known = await step_store.find(self._pool, self._institution_id, order_names)
            unknown = [name for name in order_names if name not in known]
            if not unknown:
                return known
            for order in await step_store.find_unended(self._pool, self._institution_id, unknown):
                await step_store.insert(self._pool, self._mint(order))
            # Read again: another worker may have made them first.
            return known | await step_store.find(self._pool, self._institution_id, unknown)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def take(self, before: RailStep, after: RailStep) -> bool:
        try:
            return await step_store.take(self._pool, self._fence.epochs_of([]), before, after)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def count_in_flight(self, since: datetime) -> int:
        try:
            return await step_store.count_in_flight(self._pool, self._institution_id, since)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def find_loss(self) -> datetime | None:
        try:
            return await step_store.find_loss(self._pool, self._clock.real_now() - LOSS_REMEMBERED_FOR)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    def _mint(self, order: OrderNaming) -> RailStep:
        now = self._clock.real_now()
        # We choose its name, so it has one at once; if a first step returns another, it waits for that.
        named = "new" if self._names_first and order.kind == "order" else "minted"
        account_id, holder_id, by_key = self._institution_id, order.named_holder_id, order.initiation_type != "MANUAL"
        payee = None if order.counterparty is None else _decode_party(order.counterparty)
        return RailStep(
            order_name=order.order_name,
            institution_id=account_id,
            kind=order.kind,
            holder_id=order.holder_id,
            original_end_to_end_id=order.original_end_to_end_id,
            amount_cents=order.amount_cents,
            payee=None if payee is None else name_payee(payee, is_by_key=by_key),
            name_there=name_at_institution(order.naming_key, account_id, order.kind, holder_id, order.external_id),
            # Possibly lost calls are queried, and never repeated.
            state="calling" if order.outlived_loss else named,
            called_at=now if order.outlived_loss else None,
            created_at=now,
            only_asked=order.outlived_loss,
        )
