"""Names on the network: the institution that generated them, the minute, and random characters.

::

    E 99999003 202611200753 a1B2c3D4e3F     an EndToEndId: one transfer, for as long as it lives
    D 99999003 202611200753 f5E4d3C2bA0     a return id: one refund
      ISPB     UTC minute   random

They are generated before the first try and kept through every retry: a second name would be a second transfer. Case counts.

Source: SPI message catalogue 5.13.1, pacs.008 EndToEndId and pacs.004 RtrId; Pix API 2.9.0, TxId.
"""

import re
import string
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from pixconnect.platform.base.entropy import Entropy

EndToEndId = str

ReturnId = str

Txid = str
"""``[a-zA-Z0-9]{26,35}``; ours have 32 characters."""

_DIGITS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_PAIRS: Final = tuple(first + second for first in _DIGITS for second in _DIGITS)
"""Base 62 two digits at a time, in the order of ASCII, so that names sort as their numbers do."""

# The ISPB, the minute in UTC, and 11 random characters.
_NETWORK_ID: Final = r"[0-9A-Z]{8}[0-9]{4}[0-1][0-9][0-3][0-9][0-2][0-9][0-5][0-9][a-zA-Z0-9]{11}"
_END_TO_END_ID: Final = re.compile("E" + _NETWORK_ID)
_RETURN_ID: Final = re.compile("D" + _NETWORK_ID)
_TXID: Final = re.compile(r"[a-zA-Z0-9]{26,35}")


def make_end_to_end_id(ispb: str, instant: datetime, entropy: Entropy) -> EndToEndId:
    return f"E{ispb}{_minute(instant.replace(second=0, microsecond=0))}{entropy.token(11)}"


def make_return_id(ispb: str, instant: datetime, entropy: Entropy) -> ReturnId:
    return f"D{ispb}{_minute(instant.replace(second=0, microsecond=0))}{entropy.token(11)}"


@lru_cache(maxsize=4)
def _minute(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%d%H%M}"


def make_txid(instant: datetime, entropy: Entropy) -> Txid:
    """Generate a txid: 8 characters that rise with time, then 24 with 142 random bits against guessing."""
    # Rising names go to one end of their index, so PostgreSQL touches, and writes in full, few of its pages.
    rest, fourth = divmod(int(instant.timestamp() * 1000), 3844)
    rest, third = divmod(rest, 3844)
    first, second = divmod(rest, 3844)
    return _PAIRS[first] + _PAIRS[second] + _PAIRS[third] + _PAIRS[fourth] + entropy.token(24)


def is_end_to_end_id(text: str) -> bool:
    return _END_TO_END_ID.fullmatch(text) is not None


def is_return_id(text: str) -> bool:
    return _RETURN_ID.fullmatch(text) is not None


def names_a_transfer(name: str) -> bool:
    """Whether the scheme's name of an order is a transfer's; otherwise it is a refund's.

    Only for known ids: for other texts use ``is_end_to_end_id``.
    """
    return name.startswith("E")


def is_of_another(text: str, ispb: str) -> bool:
    """Whether another institution generated this name; ``False`` for a text that is no name."""
    return (is_end_to_end_id(text) or is_return_id(text)) and text[1:9] != ispb


def minute_of_name(text: str) -> datetime | None:
    """Read the minute in a transfer's or refund's name; ``None`` for any other text."""
    if not is_end_to_end_id(text) and not is_return_id(text):
        return None
    try:
        # Not strptime, which takes eight times as long: each order is checked by this.
        return datetime(
            int(text[9:13]), int(text[13:15]), int(text[15:17]), int(text[17:19]), int(text[19:21]), tzinfo=UTC
        )
    except ValueError:
        # The pattern admits months and days that do not exist.
        return None


def is_txid(text: str) -> bool:
    # A static code carries a shorter txid, which is no charge's name.
    return _TXID.fullmatch(text) is not None
