"""Whether an accepted order's money may still leave: checked when an operator approves it and when it starts late."""

from __future__ import annotations

from msgspec import Struct

from pixconnect.kernel.rules.ledger import Balance
from pixconnect.kernel.rules.order import name_of
from pixconnect.kernel.rules.refund import AUTOMATIC_PREFIX, Refund
from pixconnect.kernel.rules.transfer import Transfer


class WaitingOrder(Struct, frozen=True, kw_only=True):
    """An accepted transfer or refund with reserved money, and its holder's present state."""

    ordered: Transfer | Refund
    balance: Balance
    is_disabled: bool
    """By an operator."""

    @property
    def name(self) -> str:
        return name_of(self.ordered)

    @property
    def is_holders(self) -> bool:
        """Whether the money is the holder's: a payment that was not accepted is not."""
        return not (isinstance(self.ordered, Refund) and (self.ordered.external_id or "").startswith(AUTOMATIC_PREFIX))


def find_flag_hold(waiting: WaitingOrder) -> str | None:
    """Find why an operator's flag stops a holder's payments."""
    if not waiting.is_holders:
        return None
    if not waiting.balance.may_withdraw:
        return "the holder may not withdraw"
    return "the holder is disabled" if waiting.is_disabled else None


def find_debt_hold(waiting: WaitingOrder) -> str | None:
    """Find why a debt stops a holder's payments."""
    if not waiting.is_holders or not waiting.balance.deficit_cents:
        return None
    return f"the holder owes {waiting.balance.deficit_cents} cents that its institution took"
