"""Lists: the query for a page, the page, and the cursor, which callers send for the next one.

A cursor is octets in base64url: a version, numbers, and a check over them and over the list: its holder and filters. The check
is no secret; it only detects mistakes, such as a cursor of another list. SQL protects other holders' items: it filters by the
caller's holder, for every cursor. Callers may keep cursors, the feed's for weeks, so any change here needs a new version.

A cursor of a list has four numbers (see ``listing.Cursor``), with microseconds since 1970 for the instant: 39 octets.

Searches of transfers: a unique id finds its transfer at once, and so does a status with a period: both have an index.
Direction, key, txid, amount, tax id and a part of the end-to-end id have none, because an index would slow every new transfer.
For these, a bounded number of transfers of the period is scanned.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, Generic, TypeVar, get_args

from msgspec import Struct

from pixconnect.kernel.rules.transfer import Direction, Transfer, TransferStatus
from pixconnect.platform.base import errors

Item = TypeVar("Item")
OtherItem = TypeVar("OtherItem")


class Cursor(Struct, frozen=True, kw_only=True):
    """Where a list continues: after the caller's last item."""

    created_at: datetime
    id: int
    position: int  # how many items came before
    # Counted on the first page only: counting again for each page would cost more than the page.
    total_count: int


class Span(Struct, frozen=True, kw_only=True):
    """The query for a page; lists are newest first."""

    page: int = 1  # from 1; ignored beside ``after``
    page_size: int = 10  # 1 to 1000
    initial_at: datetime | None = None  # both bounds are included; ``None`` is no bound
    final_at: datetime | None = None
    after: Cursor | None = None

    @property
    def position(self) -> int:
        return (self.page - 1) * self.page_size if self.after is None else self.after.position


class Page(Struct, Generic[Item], frozen=True, kw_only=True):
    items: list[Item]
    # The count of the whole list, read together with the page; with a cursor, the count on the first page.
    total_count: int
    next: Cursor | None = None  # ``None`` on the last page

    def with_items(self, items: list[OtherItem]) -> "Page[OtherItem]":
        return Page(items=items, total_count=self.total_count, next=self.next)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_LATEST: Final = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH) // _MICROSECOND
NUMBER_MAX: Final = 2**53 - 1  # the largest number that PostgreSQL, Python and JSON all represent


class CursorText:
    """The text form of one kind of cursor.

    Args:
        form: The version and the numbers, as ``struct`` has them.
        check_size: Octets of the check; with the numbers a multiple of three, so that the text needs no padding.
        refusal: The error message for any other text.
    """

    def __init__(self, version: int, form: str, check_size: int, refusal: str) -> None:
        self._version = version
        self._numbers = struct.Struct(form)
        self._check_size = check_size
        self._refusal = refusal

    def write(self, listed: bytes, *numbers: int) -> str:
        packed = self._numbers.pack(self._version, *numbers)
        return urlsafe_b64encode(packed + self._check(packed, listed)).decode()

    def read(self, listed: bytes, text: str) -> tuple[int, ...]:
        """Read the numbers of a cursor; raises ``BadRequest`` for a garbled or invented one."""
        try:
            octets = urlsafe_b64decode(text)
        except ValueError:
            raise self.refuse() from None
        packed, check = octets[: self._numbers.size], octets[self._numbers.size :]
        # Python's decoder skips characters outside base64: encoding again must return the same text.
        is_ours = urlsafe_b64encode(octets).decode() == text and len(packed) == self._numbers.size
        if not is_ours or check != self._check(packed, listed):
            raise self.refuse()
        version, *numbers = self._numbers.unpack(packed)
        if version != self._version:
            raise self.refuse()
        return tuple(numbers)

    def refuse(self) -> errors.BadRequest:
        return errors.BadRequest(self._refusal)

    def _check(self, packed: bytes, listed: bytes) -> bytes:
        return blake2b(packed + listed, digest_size=self._check_size).digest()


_OF_LISTS: Final = CursorText(
    1, ">BQQQQ", 6, "after: must be a cursor that this list answered to you in a Link header, under the same filters"
)


def write_cursor(cursor: Cursor, listed: bytes) -> str:
    microseconds = (cursor.created_at - _EPOCH) // _MICROSECOND
    return _OF_LISTS.write(listed, microseconds, cursor.id, cursor.position, cursor.total_count)


def read_cursor(text: str, listed: bytes) -> Cursor:
    """Read a cursor; ``BadRequest`` if it is garbled, or not of this list, this caller and these filters."""
    microseconds, last_id, position, total_count = _OF_LISTS.read(listed, text)
    # A forged cursor can have a correct check.
    if microseconds > _LATEST or max(last_id, position, total_count) > NUMBER_MAX:
        raise _OF_LISTS.refuse()
    created_at = _EPOCH + timedelta(microseconds=microseconds)
    return Cursor(created_at=created_at, id=last_id, position=position, total_count=total_count)


SEARCHED_MAX: Final = 10_000


class SearchTooLarge(errors.BadRequest):
    """The period has more transfers than one search scans."""


class TransferSearch(Struct, frozen=True, kw_only=True):
    """Conditions that a transfer must meet; ``None`` means any."""

    status: TransferStatus | None = None
    direction: Direction | None = None
    external_id: str | None = None
    end_to_end_id: str | None = None  # ours or the network's
    # The payee's key, normalised; for an incoming transfer, the key by which the payer found the holder.
    key: str | None = None
    txid: str | None = None
    amount_cents: int | None = None
    tax_id: str | None = None  # the counterparty's; unknown if the institution masks it or does not report it
    end_to_end_id_part: str | None = None  # a part of our name or the network's, in any case

    @property
    def statuses(self) -> tuple[TransferStatus, ...]:
        return get_args(TransferStatus) if self.status is None else (self.status,)

    @property
    def is_filtered(self) -> bool:
        """Whether it filters by a field without an index."""
        asked = (self.direction, self.key, self.txid, self.amount_cents, self.tax_id, self.end_to_end_id_part)
        return any(value is not None for value in asked)

    def finds(self, transfer: Transfer, span: Span) -> bool:
        return (
            transfer.status in self.statuses
            and self.direction in (None, transfer.direction)
            and self.external_id in (None, transfer.external_id)
            and self.end_to_end_id in (None, transfer.end_to_end_id, transfer.network_id)
            and self.key in (None, transfer.own_key, transfer.counterparty.key)
            and self.txid in (None, transfer.txid)
            and self.amount_cents in (None, transfer.amount_cents)
            and self.tax_id in (None, transfer.counterparty.tax_id)
            and (self.end_to_end_id_part or "").lower() in f"{transfer.end_to_end_id} {transfer.network_id or ''}".lower()
            and (span.initial_at is None or span.initial_at <= transfer.created_at)
            and (span.final_at is None or transfer.created_at <= span.final_at)
        )


def check_searched(count: int) -> None:
    if count > SEARCHED_MAX:
        raise SearchTooLarge(
            "initial_date, final_date: by direction, key, txid, amount, tax_id or end_to_end_id_part at most "
            f"{SEARCHED_MAX} transfers are searched, and these dates and status have {count}; choose a shorter period"
        )
