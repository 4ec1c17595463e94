"""Who asked for what: for one thing, for everything that a client did, and for how long we know it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, get_args

from msgspec import structs

from pixconnect.domain.frame import errors
from pixconnect.domain.money.charge import Charge
from pixconnect.domain.money.refund import Refund
from pixconnect.domain.money.transfer import Transfer
from pixconnect.domain.webhooks.endpoint import Endpoint
from pixconnect.foundation.pool import Pool
from pixconnect.store.identity import access as access_store
from pixconnect.store.identity import origin as origin_store
from pixconnect.store.identity.origin import Fact, Origin, OriginKind
from pixconnect.store.reading.search import Found
from pixconnect.usecases.frame.context import Context, Operator

KINDS: Final[tuple[OriginKind, ...]] = get_args(OriginKind)
SHOWN_MAX: Final = 10_000
"""At most so many of a client's acts at once."""
_FOUND_ONCE: Final = frozenset({"charge", "transfer", "refund"})
_CHANGES_MAX: Final = 20
_AN_OPERATOR: Final = "an operator"
_FORGOTTEN_AT_ONCE: Final = 1_000
_BATCHES_MAX: Final = 20


async def find_origins(pool: Pool, found: Sequence[Found]) -> dict[tuple[str, int, int], Origin]:
    """The origin of each of these, by kind, id and holder; of an endpoint, that of its last change."""
    facts: list[Fact] = []
    origins: dict[tuple[str, int, int], Origin] = {}
    for one in found:
        if one.holder_id is None:
            continue
        if one.kind in _FOUND_ONCE:
            facts.append(Fact(kind=one.kind, id=int(one.id), holder_id=one.holder_id, at=one.created_at))
        elif one.kind == "endpoint":
            for newest in await list_changes(pool, int(one.id), one.holder_id, count_max=1):
                origins[one.kind, newest.id, newest.holder_id] = newest
    return origins | (await origin_store.find(pool, facts) if facts else {})


async def list_changes(pool: Pool, endpoint_id: int, holder_id: int, count_max: int = _CHANGES_MAX) -> list[Origin]:
    """Who asked for the changes of an endpoint, the newest first."""
    return await origin_store.list_of(pool, "endpoint", endpoint_id, holder_id, count_max)


async def find_shown(
    context: Context, kind: str, subject: Charge | Transfer | Refund, *, is_operator: bool
) -> Origin | None:
    """Who asked for a thing, as far as the visitor may know."""
    fact = Fact(kind=kind, id=subject.id, holder_id=subject.holder_id, at=subject.created_at)
    found = (await origin_store.find(context.pool, [fact])).get((kind, subject.id, subject.holder_id))
    return None if found is None else found if is_operator else _mask(found)


async def list_shown_changes(context: Context, endpoint: Endpoint, *, is_operator: bool) -> list[Origin]:
    """Who asked for the changes of an endpoint, as far as the visitor may know."""
    changes = await list_changes(context.pool, endpoint.id, endpoint.holder_id)
    return changes if is_operator else [_mask(change) for change in changes]


def _mask(origin: Origin) -> Origin:
    # A holder learns which of its clients it was; we tell no client where another client is and which tokens it has.
    operator = None if origin.operator is None else _AN_OPERATOR
    return structs.replace(origin, jti=None, peer=None, request_id=None, operator=operator)


async def list_activity(  # noqa: PLR0913  each narrows the search
    context: Operator,
    client_id: str,
    initial_at: datetime,
    final_at: datetime,
    *,
    kind: OriginKind | None = None,
    token_id: str | None = None,
    peer: str | None = None,
    holder_id: int | None = None,
    count_max: int = SHOWN_MAX,
) -> list[Origin]:
    """What a client of this holder, by default its own, asked for in an interval, the newest first."""
    if holder_id is None:
        async with context.pool.acquire() as connection:
            found = await access_store.find(connection, client_id)
        if found is None:
            reason = "if it was deleted, name its holder by --holder-id"
            raise errors.NotFound(f"client_id: there is no client {client_id}; {reason}")
        holder_id = found.client.holder_id
    return await origin_store.list_of_client(
        context.pool,
        holder_id,
        client_id,
        initial_at,
        final_at,
        kinds=KINDS if kind is None else (kind,),
        jti=token_id,
        peer=peer,
        count_max=count_max,
    )


async def forget_old(pool: Pool) -> None:
    """Forget what is kept no more; what this pass leaves, the next ones take."""
    for _ in range(_BATCHES_MAX):
        if await origin_store.forget(pool, _FORGOTTEN_AT_ONCE) < _FORGOTTEN_AT_ONCE:
            return
