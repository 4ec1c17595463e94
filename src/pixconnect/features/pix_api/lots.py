"""What lots hold of the charges that this API writes and finds. A feature has the lots."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, ClassVar, LiteralString

from msgspec import Struct

from pixconnect.kernel.feature import gather_one
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection

if TYPE_CHECKING:
    from pixconnect.features.pix_api.service.charge_write import ChargeWrite


class BatchItems(Struct):
    """The items of lots in a batch of writes; without lots, none."""

    def check(self, write: "ChargeWrite", charge: Charge | None, *, makes: bool) -> None:
        """Raise the reason against a write; ``makes`` if it would make a new charge."""

    def note(self, write: "ChargeWrite", outcome: Charge | errors.PixConnectError) -> None:
        """Note the outcome of a write for its item."""

    async def finish(self, connection: Connection) -> None:
        """Write what was noted, after the charges."""


class Lots:
    held: ClassVar[LiteralString] = """
        select txid, holder_id from unnest($1::text[], $2::bigint[]) as wanted (txid, holder_id) where false
    """
    """Selects those of some txids, with their holders, that only requests of their lot may make or change now."""
    searched: ClassVar[LiteralString | None] = None
    """``from ... where``: the charges of holder ``$1``, made in ``$2`` to ``$3``, of statuses ``$4``, lot ``$5``, debtor
    ``$6``, with or without a location ``$7``."""

    async def lock_items(
        self,
        work: UnitOfWork,
        batch: "Sequence[ChargeWrite]",
        charges: Mapping[tuple[str, int], Charge],
        held_before: set[tuple[str, int]],
    ) -> BatchItems:
        """Lock the items of a batch of writes, after their charges.

        Args:
            charges: The existing ones, locked.
            held_before: The ``held`` txids, with their holders, at the look-up.
        """
        del work, batch, charges, held_before
        return BatchItems()


@cache
def find_lots() -> Lots:
    return gather_one("charge_batches", Lots)
