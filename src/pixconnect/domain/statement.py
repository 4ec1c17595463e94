"""A statement: every change of a holder's current funds in a span of time, oldest first.

What a statement holds is fixed once, as a first and a last number; lines are then read by number, in parts, however long that
takes. Numbered entries never change and never come in between, so ``opening + lines = closing`` holds although money keeps
arriving while somebody reads.
"""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.holder import Party


class Extent(Struct, frozen=True, kw_only=True):
    """Which entries a statement holds.

    Attributes:
        first_number: Of its first line, or of the next entry there could be.
        last_number: Of its last line; below ``first_number`` if it has none.
        opening_cents: Current funds before the first line.
        closing_cents: Current funds after the last line.
        last_at: The last line's instant; ``None`` if there is none.
    """

    first_number: int
    last_number: int
    opening_cents: int
    closing_cents: int
    last_at: datetime | None

    @property
    def lines_count(self) -> int:
        """How many lines there are."""
        return max(0, self.last_number - self.first_number + 1)


class Statement(Struct, frozen=True, kw_only=True):
    """A statement without its lines.

    Attributes:
        holder_id: Whose it is.
        account: The holder's account.
        initial_at: The first instant included.
        final_at: The last instant included.
        made_at: Service time.
        extent: What it holds.
    """

    holder_id: int
    account: Party
    initial_at: datetime
    final_at: datetime
    made_at: datetime
    extent: Extent

    @property
    def closed_at(self) -> datetime:
        """The instant of the closing balance: a span may end in the future, a balance cannot.

        The last line may be dated after ``made_at``: instants are pushed on so that they rise, and processes differ.
        """
        return min(self.final_at, max(self.made_at, self.extent.last_at or self.made_at))


class Counterparty(Struct, frozen=True, kw_only=True):
    """The other side of a line.

    Attributes:
        name: The account's owner.
        tax_id: CPF or CNPJ, unmasked.
        ispb: The institution.
    """

    name: str
    tax_id: str
    ispb: str


class StatementLine(Struct, frozen=True, kw_only=True):
    """One change of current funds.

    Attributes:
        id: Of the ledger entry.
        created_at: When it settled.
        end_to_end_id: The transfer's; of a refund, the original's. ``None`` for a deposit.
        return_id: Of a refund.
        direction: ``IN`` raised current funds, ``OUT`` lowered them.
        amount_cents: Positive.
        running_balance_cents: Current funds after it.
        counterparty: The other side; ``None`` for a deposit.
        description: What the refund's author wrote.
    """

    id: int
    created_at: datetime
    end_to_end_id: str | None
    return_id: str | None
    direction: Literal["IN", "OUT"]
    amount_cents: int
    running_balance_cents: int
    counterparty: Counterparty | None
    description: str | None
