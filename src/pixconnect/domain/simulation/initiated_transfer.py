"""An initiated transfer: its payee was found and its name told, and no money has moved or is reserved for it.

It is never changed. It was confirmed if there is a transfer of its name.
"""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from pixconnect.domain.money.holder import KeyType, Party


class InitiatedTransfer(Struct, frozen=True, kw_only=True):
    end_to_end_id: str
    """The transfer's too, once it is confirmed."""
    holder_id: int
    key: str
    key_type: KeyType
    counterparty: Party
    """Whose the key was then."""
    created_at: datetime
