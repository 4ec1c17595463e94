"""A line of an institution's statement as we keep it: what it says, which never changes, and what of ours it is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Literal

from msgspec import Struct

from pixconnect.domain.institutions.institution import InstitutionItem
from pixconnect.domain.institutions.joining import JoinedBy, Waiting
from pixconnect.domain.institutions.statement_files.statement_file import ItemKind, ItemSource, StatementAccount


class RecordedItem(InstitutionItem, frozen=True, kw_only=True):
    institution_id: int
    kind: ItemKind
    source: ItemSource
    recorded_at: datetime
    joined_kind: Literal["transfer", "refund", "movement"] | None = None
    joined_id: str | None = None
    joined_by: JoinedBy | None = None
    is_reversal: bool = False
    fee_of_kind: Literal["transfer", "refund"] | None = None
    fee_of_id: str | None = None
    waits: Waiting | None = None
    others: Sequence[InstitutionItem] = ()
    """Other contents under the same id: which are true is for a person to find out."""

    def says(self, item: InstitutionItem) -> bool:
        """Whether an item that comes again says the same."""
        return all(getattr(self, name) == getattr(item, name) for name in InstitutionItem.__struct_fields__)


class RecordedFile(Struct, frozen=True, kw_only=True):
    """A statement file that was read."""

    institution_id: int
    digest: bytes
    """SHA-256 of it."""
    format: ItemSource
    account: StatementAccount
    first_on: date
    last_on: date
    items_count: int
    recorded_at: datetime
