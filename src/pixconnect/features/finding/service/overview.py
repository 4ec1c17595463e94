"""The console's first page: the money of the day, and figures over time; and all of one holder, for support.

Hourly totals count each kind by status, and are exact over any span. Reasons, and durations of the rail and of webhooks, have
no totals: they are of the newest thousand, and the answer has their number.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from msgspec import Struct

from pixconnect.features.finding.service import browse
from pixconnect.features.finding.service.browse import EndpointLine
from pixconnect.features.finding.tables import search as search_store
from pixconnect.features.finding.tables.search import Found
from pixconnect.features.identity.service import access
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.monitoring import tables as figures_store
from pixconnect.features.monitoring.rules import Figures, HolderMoney, Series, SeriesKind, Step, spread
from pixconnect.features.monitoring.tables import Sum
from pixconnect.features.movements import tables as movement_store
from pixconnect.features.movements.blocks import Block
from pixconnect.features.webhooks.tables import endpoint as endpoint_store
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows.context import Context, Core, Operator
from pixconnect.kernel.rules.access import READING_SCOPES, Client, Viewer
from pixconnect.kernel.rules.holder import Holder, PixKey
from pixconnect.kernel.rules.ledger import Funds
from pixconnect.kernel.rules.limit import Limits, find_night_begin, read_limits
from pixconnect.kernel.rules.proposal import Proposal
from pixconnect.kernel.tables.clock import service_now
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import begin_of_day

LINES_MAX: Final = 20_000  # of all holders together; that takes 20 ms


async def read_money(context: Core, viewer: Viewer, holder_ids: Sequence[int], lines_max: int = LINES_MAX) -> list[HolderMoney]:
    """Read these holders' balances, and the incoming and outgoing money of today and yesterday.

    No holder whose ledger the viewer may not see.
    """
    seen = [each for each in holder_ids if viewer.may_see("ledger entry") and viewer.holder_id in (None, each)]
    if not seen:
        return []
    now = await service_now(context.clock, context.pool)
    # The day is that of Sao Paulo, as for limits. The maximum is divided among holders, so that many do not slow the page down.
    today = begin_of_day(now)
    yesterday = begin_of_day(today - timedelta(hours=1))
    return await figures_store.read_money_of_day(context.pool, seen, today, yesterday, lines_max // len(seen))


NAMED_MAX: Final = 50
LOOKED_AT_MAX: Final = 10_000


class HolderPage(Struct, frozen=True, kw_only=True):
    holder: Holder
    funds: Funds
    today: HolderMoney | None
    # The account at an institution that has its money; ``None`` is the installation's own rail.
    institution: str | None
    night_begins_h: int  # the hour in Sao Paulo
    wanted: Proposal | None  # pending higher limits
    wanted_limits: Limits | None
    wanted_night_begins_h: int | None
    keys: Sequence[PixKey]
    clients: Sequence[Client]
    endpoints: Sequence[EndpointLine]
    blocks: Sequence[Block]  # open blocks, oldest first


async def read_holder_page(context: Operator, holder_id: int) -> HolderPage:
    """Read all of a holder, for operators only; ``NotFound`` if it does not exist."""
    holder, funds = await holder_usecases.read_holder_with_funds(context, holder_id)
    viewer = Viewer(holder_id=holder_id, scopes=READING_SCOPES)
    money = await read_money(context, viewer, [holder_id])
    there = None if holder.institution_id is None else await account_store.find(context.pool, holder.institution_id)
    now = context.clock.now()
    wanted = (await holder_usecases.find_waiting(context, holder_id)).get("limits")
    limits = wanted and read_limits(wanted.contents)
    return HolderPage(
        holder=holder,
        funds=funds,
        today=money[0] if money else None,
        institution=None if there is None else there.name,
        night_begins_h=find_night_begin(is_late=holder.night_begins_late, now=now),
        wanted=wanted,
        wanted_limits=limits,
        wanted_night_begins_h=limits and find_night_begin(is_late=limits.night_begins_late, now=now),
        keys=await holder_usecases.list_pix_keys(context, holder_id),
        clients=await access.list_clients(context, holder_id),
        endpoints=await browse.list_endpoint_lines(context, viewer),
        blocks=await movement_store.list_open_blocks(context.pool, [holder_id]),
    )


async def list_named_holders(context: Operator, part: str) -> list[Found]:
    """List holders with this in their names, of the newest ten thousand."""
    return await search_store.find_holders(context.pool, part, None, NAMED_MAX, LOOKED_AT_MAX)


ADDING_S: Final = 0.3  # maximum time for adding up holders' totals
HOLDERS_AT_ONCE: Final = 200
ENDPOINTS_MAX: Final = 1_000


async def read_figures(context: Context, viewer: Viewer, initial_at: datetime, final_at: datetime, step: Step) -> Figures:
    """Figures of a holder or of all, as far as the viewer's scopes show them."""
    if initial_at > final_at:
        raise errors.BadRequest("instant: the time ends before it begins")
    first_hour = initial_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    pool, sees_webhooks = context.pool, viewer.may_see("delivery")
    sums, holder_ids, is_partial = await _add_up(context, viewer, first_hour, final_at, step)
    endpoint_ids: list[int] = []
    if sees_webhooks:
        async with pool.acquire() as connection:
            found = await endpoint_store.find_some(connection, viewer.holder_id, None, ENDPOINTS_MAX)
        endpoint_ids = [endpoint.id for endpoint in found]
        sums += await figures_store.read_event_sums(pool, holder_ids, first_hour, final_at, step)
        sums += await figures_store.read_delivery_sums(pool, endpoint_ids, first_hour, final_at, step)
    settling, reasons = [], []
    if viewer.may_see("transfer"):
        settling = await figures_store.read_settling(pool, viewer.holder_id, initial_at, final_at)
        reasons = await figures_store.read_reasons(pool, viewer.holder_id, initial_at, final_at)
    delivering = await figures_store.read_delivering(pool, endpoint_ids, initial_at, final_at) if endpoint_ids else []
    return Figures(
        series=_gather([each for each in sums if viewer.may_see(each[0])]),
        reasons=tuple(reasons),
        settling=spread(settling),
        delivering=spread(delivering),
        holders_count=len(holder_ids),
        is_partial=is_partial,
    )


async def read_days(context: Core, holder_ids: Sequence[int], initial_at: datetime, final_at: datetime) -> tuple[Series, ...]:
    """What these few holders made on each day of Sao Paulo, by kind and present state."""
    return _gather(await figures_store.read_sums(context.pool, holder_ids, initial_at, final_at, "day"))


async def _add_up(
    context: Context, viewer: Viewer, initial_at: datetime, final_at: datetime, step: Step
) -> tuple[list[Sum], list[int], bool]:
    """The totals, their holders, and whether there are more."""
    pool = context.pool
    if viewer.holder_id is not None:
        own = [viewer.holder_id]
        return await figures_store.read_sums(pool, own, initial_at, final_at, step), own, False
    began_s, sums, holder_ids = context.clock.monotonic_s(), list[Sum](), list[int]()
    while some := await figures_store.next_holders(pool, holder_ids[-1] if holder_ids else 0, HOLDERS_AT_ONCE):
        sums += await figures_store.read_sums(pool, some, initial_at, final_at, step)
        holder_ids += some
        # Totals begin with the holder: no index has all of an hour together.
        if context.clock.monotonic_s() - began_s > ADDING_S:
            return sums, holder_ids, bool(await figures_store.next_holders(pool, holder_ids[-1], 1))
    return sums, holder_ids, False


def _gather(sums: Sequence[Sum]) -> tuple[Series, ...]:
    counts: dict[tuple[SeriesKind, str], dict[datetime, int]] = {}
    for kind, status, began_at, count in sums:
        points = counts.setdefault((kind, status), {})
        points[began_at] = points.get(began_at, 0) + count
    return tuple(
        Series(kind=kind, status=status, points=tuple(sorted(points.items())))
        for (kind, status), points in sorted(counts.items())
    )
