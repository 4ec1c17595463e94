"""A lot of charges with a due date: its list of charges never changes, and a worker makes or changes them one by one.

::

    PROCESSING ──made, or changed──► CREATED
        │  ▲                            │
        │  └────────asked again─────────┤
        └────the request is refused─────┴──► REFUSED   (with its charge, if that was made before)
"""

from datetime import datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct

from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange
from pixconnect.kernel.rules.event import SLOTS_COUNT
from pixconnect.platform.base.errors import Violation

ITEMS_MAX: Final = 1000
DESCRIPTION_LENGTH_MAX: Final = 255
WAITING_MAX: Final = 8  # maximum of pending requests of one charge

ItemStatus = Literal["PROCESSING", "CREATED", "REFUSED"]
Refusal = tuple[Violation, ...]


class ChargeLot(Struct, frozen=True, kw_only=True):
    holder_id: int
    number: int  # chosen by its holder
    slot: int
    description: str
    item_count: int
    asked_count: int  # how many requests have made or changed it
    created_at: datetime


class LotItem(Struct, frozen=True, kw_only=True):
    holder_id: int
    lot_number: int
    place: int  # from 0, in the order of the first request
    txid: str
    status: ItemStatus
    charge_id: int | None = None  # once it was made; a refused change leaves it
    wanted: str | None = None  # the contents sent for a charge that is not made yet, as JSON
    refusal: Refusal | None = None


class ShownItem(Struct, frozen=True, kw_only=True):
    txid: str
    status: ItemStatus
    refusal: Refusal | None
    made_at: datetime | None  # when its charge was made


class WantedItem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request for one charge, new or existing: only the worker knows which by then.

    It is stored as JSON and read by later programs: a new field needs a default, and none is renamed.
    """

    contents: ChargeContents | None = None  # all its wanted contents, if their form is right
    contents_refusal: Refusal = ()  # why these contents cannot make it
    change: ContentsChange | None = None  # the changes to an existing charge; ``None`` replaces all contents
    change_refusal: Refusal = ()
    is_change: bool = False
    location_id: int | None = None  # of the contents
    change_location_id: int | None = None
    removes: bool = False


class LotRequest(Struct, frozen=True, kw_only=True):
    holder_id: int
    lot_number: int
    place: int
    number: int  # of the request of this lot: those of one charge are done in order
    slot: int
    asked: str
    asked_by: str


def slot_of(lot_number: int) -> int:
    # By the lot and not by its charges, so that one worker does all of a lot.
    return lot_number % SLOTS_COUNT


decode_asked = msgspec.json.Decoder(WantedItem).decode
_decode_refusal = msgspec.json.Decoder(Refusal).decode
encode = msgspec.json.Encoder().encode


def encode_refusal(refusal: Refusal | None) -> str | None:
    return None if refusal is None else encode(refusal).decode()


def decode_refusal(text: str | None) -> Refusal | None:
    return None if text is None else _decode_refusal(text)
