"""Finds an id in all holders: the question of an operator who knows an id and nothing else."""

from __future__ import annotations

from typing import Final

from pixconnect.domain.frame import errors
from pixconnect.domain.identity.console import Viewer
from pixconnect.domain.money.pix_key import as_kept
from pixconnect.foundation.pool import Pool
from pixconnect.store.identity.origin import Origin
from pixconnect.store.reading import search as search_store
from pixconnect.store.reading.search import Found
from pixconnect.usecases.frame.context import HasPool
from pixconnect.usecases.frame.operator import OperatorContext
from pixconnect.usecases.reading import origin as origin_usecases

TEXT_LENGTH_MAX: Final = 255
EACH_MAX: Final = 100
"""For each kind: holders choose their external ids themselves, so many may have the same."""
_ID_MAX: Final = 2**53 - 1


async def find_by_any_id(context: OperatorContext, text: str) -> list[Found]:
    """Everything that has this id, ours or the holder's or the network's."""
    found = await _find(context.pool, text, None)
    if not found:
        raise errors.NotFound(f"nothing has the id {text}")
    return found


async def find_with_origins(context: OperatorContext, text: str) -> list[tuple[Found, Origin | None]]:
    """The same with who asked for each, as far as that is known."""
    found = await find_by_any_id(context, text)
    origins = await origin_usecases.find_origins(context.pool, found)
    return [
        (one, origins.get((one.kind, int(one.id), one.holder_id)) if one.holder_id and one.id.isdecimal() else None)
        for one in found
    ]


async def find_anything(context: HasPool, viewer: Viewer, text: str) -> list[Found]:
    """The same for a visitor of the console: a holder finds its own things within its scopes; none is no error."""
    text = text.strip()
    # As webhooks name an event.
    number = text.removeprefix("evt_")
    found = await _find(context.pool, number if number.isdecimal() else text, viewer.holder_id)
    return [one for one in found if viewer.may_see(one.kind)]


async def _find(pool: Pool, text: str, holder_id: int | None) -> list[Found]:
    if not 1 <= len(text) <= TEXT_LENGTH_MAX or not text.isprintable():
        raise errors.BadRequest(f"any_id: must have 1 to {TEXT_LENGTH_MAX} printable characters")
    number = int(text) if text.isascii() and text.isdecimal() and 1 <= int(text) <= _ID_MAX else None
    return await search_store.find_by_any_id(pool, text, number, as_kept(text), EACH_MAX, holder_id)
