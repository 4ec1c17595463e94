"""The names of things on the network: who made them, when, and eleven characters of chance.

::

    E 99999003 202611200753 a1B2c3D4e5F     an EndToEndId: one transfer, for as long as it lives
    D 99999003 202611200753 f5E4d3C2b1A     a return id: one refund
      ISPB     UTC minute   chance

All are made before the first try and kept through every repetition: a second name would be a second transfer.
They are case-sensitive.
"""

import re
import string
from datetime import UTC, datetime, timedelta
from typing import Final

from pixconnect.domain.entropy import Entropy

EndToEndId = str
"""A transfer's name on the whole network, 32 characters."""

ReturnId = str
"""A refund's name on the whole network, 32 characters."""

Txid = str
"""A charge's name, ``[a-zA-Z0-9]{26,35}``; ours have 32 characters."""

WINDOW: Final = timedelta(hours=12)
"""How far from the time in its name the network takes an order; outside of it the answer is FF08."""

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_PAIRS: Final = [first + second for first in _DIGITS for second in _DIGITS]
"""Base 62, two digits at a time, in the order of ASCII."""

_NETWORK_ID: Final = r"[0-9A-Z]{8}[0-9]{4}[0-1][0-9][0-3][0-9][0-2][0-9][0-5][0-9][a-zA-Z0-9]{11}"
_END_TO_END_ID: Final = re.compile("E" + _NETWORK_ID)
_RETURN_ID: Final = re.compile("D" + _NETWORK_ID)
_TXID: Final = re.compile(r"[a-zA-Z0-9]{26,35}")


def make_end_to_end_id(ispb: str, instant: datetime, entropy: Entropy) -> EndToEndId:
    """Name a transfer.

    Args:
        ispb: Ours.
        instant: Aware; the network refuses a name more than 12 hours off (FF08).
        entropy: 62^11 names a minute: two alike are not to be expected, and a unique key would refuse the second.

    Source:
        SPI message catalogue 5.13.1, pacs.008, EndToEndId.
    """
    return f"E{ispb}{instant.astimezone(UTC):%Y%m%d%H%M}{entropy.token(11)}"


def make_return_id(ispb: str, instant: datetime, entropy: Entropy) -> ReturnId:
    """Name a refund; as ``make_end_to_end_id``.

    Source:
        SPI message catalogue 5.13.1, pacs.004, RtrId.
    """
    return f"D{ispb}{instant.astimezone(UTC):%Y%m%d%H%M}{entropy.token(11)}"


def make_txid(instant: datetime, entropy: Entropy) -> Txid:
    """Name a charge: 8 characters that rise with time, and 24 of chance: more than anybody could guess.

    Names that rise are new at one end of their index: the database touches few of its pages, and writes few of them whole.

    Args:
        instant: Aware.
        entropy: 62^24 names a millisecond.
    """
    rest, fourth = divmod(int(instant.timestamp() * 1000), 3844)
    rest, third = divmod(rest, 3844)
    first, second = divmod(rest, 3844)
    return _PAIRS[first] + _PAIRS[second] + _PAIRS[third] + _PAIRS[fourth] + entropy.token(24)


def is_end_to_end_id(text: str) -> bool:
    """Whether a transfer could have this name.

    Example:
        >>> is_end_to_end_id("E99999003202611200753a1B2c3D4e5F")
        True
    """
    return _END_TO_END_ID.fullmatch(text) is not None


def is_return_id(text: str) -> bool:
    """Whether a refund could have this name."""
    return _RETURN_ID.fullmatch(text) is not None


def is_of_another(text: str, ispb: str) -> bool:
    """Whether another institution has named a transfer or refund so; what is no name at all is not another's.

    Example:
        >>> is_of_another("E99999003202611200753a1B2c3D4e5F", "99999003")
        False
    """
    return (is_end_to_end_id(text) or is_return_id(text)) and text[1:9] != ispb


def read_instant(text: str) -> datetime | None:
    """The minute in a transfer's or refund's name; ``None`` where it is no such name.

    Example:
        >>> read_instant("E99999003202611200753a1B2c3D4e5F").isoformat()
        '2026-11-20T07:53:00+00:00'
    """
    if not is_end_to_end_id(text) and not is_return_id(text):
        return None
    try:
        # Not strptime: each order is judged by this, and it takes eight times as long.
        return datetime(
            int(text[9:13]), int(text[13:15]), int(text[15:17]), int(text[17:19]), int(text[19:21]), tzinfo=UTC
        )
    except ValueError:
        return None


def is_outside_window(text: str, now: datetime) -> bool:
    """Whether the network refuses an order of this name for its time (FF08)."""
    instant = read_instant(text)
    return instant is not None and abs(now - instant) > WINDOW


def is_txid(text: str) -> bool:
    """Whether a charge of any institution could have this name.

    Source:
        Pix API 2.9.0, TxId. What a static code carries is shorter and no charge's name.
    """
    return _TXID.fullmatch(text) is not None
