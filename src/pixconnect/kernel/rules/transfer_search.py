"""The search of transfers.

A unique id finds its transfer at once, and so does a status with a period: both have an index. Direction, key, txid, amount,
tax id and a part of the end-to-end id have none, because an index would slow every new transfer. For these, a bounded number of
transfers of the period is scanned.
"""

from __future__ import annotations

from typing import Final, get_args

from msgspec import Struct

from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.transfer import Direction, Transfer, TransferStatus
from pixconnect.platform.base import errors

SEARCHED_MAX: Final = 10_000
"""Maximum of scanned transfers."""


class SearchTooLarge(errors.BadRequest):
    """The period has more transfers than one search scans."""


class TransferSearch(Struct, frozen=True, kw_only=True):
    """Conditions that a transfer must meet; ``None`` means any."""

    status: TransferStatus | None = None
    direction: Direction | None = None
    external_id: str | None = None
    end_to_end_id: str | None = None
    """Ours or the network's."""
    key: str | None = None
    """The payee's key, normalised; for an incoming transfer, the key by which the payer found the holder."""
    txid: str | None = None
    amount_cents: int | None = None
    tax_id: str | None = None
    """The counterparty's; unknown if the institution masks it or does not report it."""
    end_to_end_id_part: str | None = None
    """A part of our name or the network's, in any case."""

    @property
    def statuses(self) -> tuple[TransferStatus, ...]:
        return get_args(TransferStatus) if self.status is None else (self.status,)

    @property
    def is_filtered(self) -> bool:
        """Whether it filters by a field without an index."""
        asked = (self.direction, self.key, self.txid, self.amount_cents, self.tax_id, self.end_to_end_id_part)
        return any(value is not None for value in asked)

    def finds(self, transfer: Transfer, span: Span) -> bool:
        """Whether a transfer matches."""
        return (
            transfer.status in self.statuses
            and self.direction in (None, transfer.direction)
            and self.external_id in (None, transfer.external_id)
            and self.end_to_end_id in (None, transfer.end_to_end_id, transfer.network_id)
            and self.key in (None, transfer.own_key, transfer.counterparty.key)
            and self.txid in (None, transfer.txid)
            and self.amount_cents in (None, transfer.amount_cents)
            and self.tax_id in (None, transfer.counterparty.tax_id)
            and (self.end_to_end_id_part or "").lower()
            in f"{transfer.end_to_end_id} {transfer.network_id or ''}".lower()
            and (span.initial_at is None or span.initial_at <= transfer.created_at)
            and (span.final_at is None or transfer.created_at <= span.final_at)
        )


def check_searched(count: int) -> None:
    """Refuse to scan too many transfers."""
    if count > SEARCHED_MAX:
        raise SearchTooLarge(
            "initial_date, final_date: by direction, key, txid, amount, tax_id or end_to_end_id_part at most "
            f"{SEARCHED_MAX} transfers are searched, and these dates and status have {count}; choose a shorter period"
        )
