"""All that belongs to one holder, as whoever supports it looks at it: account, limits, keys, clients, endpoints, money."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.domain.identity.access import Client
from pixconnect.domain.identity.console import READING_SCOPES, Viewer
from pixconnect.domain.money.block import Block
from pixconnect.domain.money.holder import Holder
from pixconnect.domain.money.ledger import Funds
from pixconnect.domain.money.limit import WaitingLimits, find_night_begin
from pixconnect.domain.money.pix_key import PixKey
from pixconnect.domain.reading.money_of_day import HolderMoney
from pixconnect.store.institutions import account as account_store
from pixconnect.store.money import block as block_store
from pixconnect.store.reading import search as search_store
from pixconnect.store.reading.search import Found
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.identity import access
from pixconnect.usecases.money import holder as holder_usecases
from pixconnect.usecases.reading import browse_webhooks, overview
from pixconnect.usecases.reading.browse_webhooks import EndpointLine

NAMED_MAX: Final = 50
LOOKED_AT_MAX: Final = 10_000


class HolderPage(Struct, frozen=True, kw_only=True):
    holder: Holder
    funds: Funds
    today: HolderMoney | None
    institution: str | None
    """The account at an institution on which its money lies; ``None`` is the installation's own rail."""
    night_begins_h: int
    """The hour in Sao Paulo."""
    wanted: WaitingLimits | None
    """Higher limits that wait."""
    wanted_night_begins_h: int | None
    keys: Sequence[PixKey]
    clients: Sequence[Client]
    endpoints: Sequence[EndpointLine]
    blocks: Sequence[Block]
    """Those that have not ended, the oldest first."""


async def read_holder_page(context: Operator, holder_id: int) -> HolderPage:
    """All of it, for operators alone.

    Raises:
        NotFound: There is no such holder.
    """
    holder, funds = await holder_usecases.read_holder_with_funds(context, holder_id)
    viewer = Viewer(holder_id=holder_id, scopes=READING_SCOPES)
    money = await overview.read_money(context, viewer, [holder_id])
    there = None if holder.institution_id is None else await account_store.find(context.pool, holder.institution_id)
    now = context.clock.now()
    wanted = await holder_usecases.find_waiting_limits(context, holder_id)
    return HolderPage(
        holder=holder,
        funds=funds,
        today=money[0] if money else None,
        institution=None if there is None else there.name,
        night_begins_h=find_night_begin(is_late=holder.night_begins_late, now=now),
        wanted=wanted,
        wanted_night_begins_h=wanted and find_night_begin(is_late=wanted.limits.night_begins_late, now=now),
        keys=await holder_usecases.list_pix_keys(context, holder_id),
        clients=await access.list_clients(context, holder_id),
        endpoints=await browse_webhooks.list_endpoint_lines(context, viewer),
        blocks=await block_store.list_open(context.pool, [holder_id]),
    )


async def list_named_holders(context: Operator, part: str) -> list[Found]:
    """Holders with this in their names, of the newest ten thousand."""
    return await search_store.find_holders(context.pool, part, None, NAMED_MAX, LOOKED_AT_MAX)
