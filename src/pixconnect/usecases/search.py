"""Where an id is, of all holders: what an operator asks who was told an id and nothing else."""

from __future__ import annotations

from typing import Final

from pixconnect.domain import errors
from pixconnect.domain.pix_key import as_kept
from pixconnect.store import search as search_store
from pixconnect.store.search import Found
from pixconnect.usecases.operator import OperatorContext

TEXT_LENGTH_MAX: Final = 255
EACH_MAX: Final = 100
"""Of each kind: holders choose their external ids for themselves, so many may have the same."""
_ID_MAX: Final = 2**53 - 1


async def find_by_any_id(context: OperatorContext, text: str) -> list[Found]:
    """Everything that has this id, ours or the holder's or the network's.

    Raises:
        BadRequest: No id is so long, or empty.
        NotFound: Nothing has it.
    """
    if not 1 <= len(text) <= TEXT_LENGTH_MAX or not text.isprintable():
        raise errors.BadRequest(f"any_id: must have 1 to {TEXT_LENGTH_MAX} printable characters")
    number = int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= _ID_MAX else None
    found = await search_store.find_by_any_id(context.pool, text, number, as_kept(text), EACH_MAX)
    if not found:
        raise errors.NotFound(f"nothing has the id {text}")
    return found
