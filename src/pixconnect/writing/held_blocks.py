"""The open blocks of the holders whose balances a batch has locked, as its requests change them.

Somebody may have thousands, and nearly all of them are covered. So a batch has only those that are not, which is all that a
movement of money asks for; who tells of blocks, or takes of them, reads the others first (``UnitOfWork.read_blocks``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable

from pixconnect.domain.frame import errors
from pixconnect.domain.money.block import Block
from pixconnect.domain.money.refund import Refund


class HeldBlocks:
    """By holder and reference. Holders that have none are not looked for: their balances say so.

    Args:
        blocks: Those that are read, the oldest of a holder first.
        has_more_of: Holders of whom only those that are not covered are among them.
    """

    def __init__(self, blocks: Iterable[Block] = (), has_more_of: Container[int] = ()) -> None:
        self._has_more_of = has_more_of
        # A dict keeps the order in which blocks were put, the oldest of a holder first, and one that changes keeps its place.
        self._blocks: defaultdict[int, dict[str, Block]] = defaultdict(dict)
        for block in blocks:
            self.put(block)

    def put(self, block: Block) -> None:
        self._blocks[block.holder_id][block.reference] = block

    def find(self, holder_id: int, reference: str) -> Block | None:
        self._check_whole(holder_id)
        # Asked first, since a look would leave an empty entry behind, and a batch looks for every holder that it posts for.
        return self._blocks[holder_id].get(reference) if holder_id in self._blocks else None

    def find_of_transfer(self, holder_id: int, transfer_id: int) -> Block | None:
        """The open block of a Pix."""
        of = (one for one in self.list_of(holder_id) if one.transfer_id == transfer_id and one.state == "open")
        return next(of, None)

    def find_to_take_of(self, refund: Refund, contest_name: str | None) -> Block | None:
        """The open block of its Pix of which an institution's refund goes."""
        of = self.list_of(refund.holder_id)
        of_pix = [one for one in of if one.transfer_id == refund.transfer_id and one.state == "open"]
        # One Pix may be contested several times: the others' blocks stay as they are, unless they cover what its own does not.
        return max(
            of_pix,
            key=lambda one: (min(one.covered_cents, refund.amount_cents), one.reference == contest_name),
            default=None,
        )

    def list_of(self, holder_id: int) -> list[Block]:
        """The oldest first, as what becomes available covers them."""
        self._check_whole(holder_id)
        return list(self._blocks[holder_id].values()) if holder_id in self._blocks else []

    def find_uncovered(self, holder_id: int) -> Block | None:
        """The oldest that more can be blocked for; whoever has locked the balance has all of these."""
        blocks = self._blocks[holder_id].values() if holder_id in self._blocks else ()
        return next((block for block in blocks if block.uncovered_cents > 0), None)

    def _check_whole(self, holder_id: int) -> None:
        # A block that was not read would count as none: money would be taken elsewhere, or a second block be made.
        errors.ensure(holder_id not in self._has_more_of, "not all blocks of the holder are read")
