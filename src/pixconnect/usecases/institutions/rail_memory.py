"""What an account's rail remembers of its orders, in the database, under the fence of the account's slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import Clock
from pixconnect.domain.institutions.rail_memory import MemoryUnavailable, RailStep, name_there
from pixconnect.foundation.database_failure import DATABASE_FAILED
from pixconnect.foundation.pool import Connection, Pool
from pixconnect.store.institutions import rail_step as step_store
from pixconnect.store.institutions.rail_step import NamedRefund
from pixconnect.usecases.money.settlement import Fence

_FAILED = (*DATABASE_FAILED, errors.PixConnectError)


class AccountFence:
    """Stands for the account's slot whatever slots its orders have: one worker does all that is done at an account."""

    def __init__(self, fence: Fence, slot: int) -> None:
        self._fence = fence
        self._slot = slot

    def epochs_of(self, slots: Sequence[int]) -> Mapping[int, int]:
        return self._fence.epochs_of([self._slot])

    async def fence(self, connection: Connection, slots: Sequence[int]) -> None:
        await self._fence.fence(connection, [self._slot])


class StoredRailMemory:
    """The port ``domain.institutions.rail_memory.RailMemory``."""

    def __init__(self, pool: Pool, fence: Fence, clock: Clock, institution_id: int) -> None:
        self._pool = pool
        self._fence = fence
        self._clock = clock
        self._institution_id = institution_id

    async def open(self, order_names: Sequence[str]) -> dict[str, RailStep]:
        try:
            known = await step_store.find(self._pool, self._institution_id, order_names)
            unknown = [name for name in order_names if name not in known]
            if not unknown:
                return known
            for refund in await step_store.find_open_refunds(self._pool, self._institution_id, unknown):
                await step_store.insert(self._pool, self._mint(refund))
            # Read again: another worker may have made them first.
            return known | await step_store.find(self._pool, self._institution_id, unknown)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    async def take(self, before: RailStep, after: RailStep) -> bool:
        try:
            return await step_store.take(self._pool, self._fence.epochs_of([]), before, after)
        except _FAILED as error:
            raise MemoryUnavailable(type(error).__name__) from error

    def _mint(self, refund: NamedRefund) -> RailStep:
        # Its name is ours to choose, so it has one at once.
        return RailStep(
            order_name=refund.order_name,
            institution_id=self._institution_id,
            kind="refund",
            holder_id=refund.holder_id,
            original_end_to_end_id=refund.original_end_to_end_id,
            amount_cents=refund.amount_cents,
            name_there=name_there(
                refund.naming_key, self._institution_id, "refund", refund.holder_id, refund.external_id
            ),
            state="minted",
            created_at=self._clock.real_now(),
        )
