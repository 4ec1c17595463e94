"""The characters of an OFX file: its encoding, and the entities in its texts."""

from __future__ import annotations

import re
from typing import Final

_HEADER_LENGTH_MAX: Final = 2048
_ENTITY: Final = re.compile(r"&(?:(amp|lt|gt|quot|apos|nbsp)|#([0-9]{1,7})|#x([0-9a-fA-F]{1,6}));")
_ENTITIES: Final = dict(amp="&", lt="<", gt=">", quot='"', apos="'", nbsp=" ")


def decode(content: bytes) -> str:
    """Decode as the header declares; valid UTF-8 beyond ASCII counts as UTF-8 regardless.

    Amounts, days and ids are ASCII, so that a wrong header changes names and texts alone.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        header = content[:_HEADER_LENGTH_MAX].decode("ascii", "replace").upper()
        # CHARSET:1252 means Windows-1252, which files that wrongly claim UTF-8 use too.
        codec = "iso-8859-1" if re.search(r"8859-1\b", header) else "cp1252"
        return content.decode(codec, "replace")


def unescape(text: str) -> str:
    def _replace(found: re.Match[str]) -> str:
        if found[1]:
            return _ENTITIES[found[1]]
        number = int(found[2]) if found[2] else int(found[3], 16)
        return chr(number) if number <= 0x10FFFF else found[0]

    return _ENTITY.sub(_replace, text)
