"""Searches of charges and of received Pix (settled incoming transfers), and orders."""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from pixconnect.kernel.rules.charge import ChargeStatus
from pixconnect.kernel.rules.holder import KeyType, Party
from pixconnect.kernel.rules.rail import InitiationType

SEARCHED_MAX: Final = 100_000  # the maximum scanned, for conditions without an index
LOT_NUMBER_MAX: Final = 10**18 - 1

Shown = Mapping[str, object]  # the members of a record in an institution's form


def without_none(members: Shown) -> Shown:
    return {name: value for name, value in members.items() if value is not None}


class Order(Struct, frozen=True, kw_only=True):
    """A transfer as its holder ordered it."""

    external_id: str
    initiation_type: InitiationType
    amount_cents: int
    key: str | None = None  # the payee's key; with a counterparty, the key that a test environment pays in its place
    key_type: KeyType | None = None
    br_code: str | None = None
    counterparty: Party | None = None
    payer_message: str | None = None
    rejected_as: str | None = None  # the rejection code of a test environment


class ReceivedSearch(Struct, frozen=True, kw_only=True):
    """Conditions that a received Pix must meet; ``None`` means any."""

    txid: str | None = None
    has_txid: bool | None = None
    has_refunds: bool | None = None  # whether it has a refund, in any state
    payer_tax_id: str | None = None

    @property
    def is_filtered(self) -> bool:
        """Whether it filters by a field without an index."""
        return not (self.has_txid is None and self.has_refunds is None and self.payer_tax_id is None)


class ChargeSearch(Struct, frozen=True, kw_only=True):
    statuses: Sequence[ChargeStatus]
    has_due_date: bool = False  # which of the two kinds of charges
    lot_number: int | None = None  # the lot that has made it, of those with a due date
    tax_id: str | None = None  # the payer's
    is_placed: bool | None = None  # whether a location leads to it; ``None`` is either
