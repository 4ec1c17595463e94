"""The first page, and figures over time.

The first page has the money of the day, tasks for people, the service's health, and recent events. Figures over time come from
the hourly totals; the latest durations have no totals.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.visit import Visit
from pixconnect.doors.console.wanted import Wanted
from pixconnect.features.finding.service import browse, overview
from pixconnect.features.monitoring.rules import Series, Spread, Step
from pixconnect.features.monitoring.service.health import HealthWatch
from pixconnect.kernel.feature import gather
from pixconnect.kernel.flows import holder, kept_report, unresolved
from pixconnect.kernel.rules.charge import STATUSES
from pixconnect.kernel.tables.clock import service_now
from pixconnect.platform.base.clock import SAO_PAULO

NEWEST_COUNT: Final = 6
HOLDERS_MAX: Final = 50


async def _count_reports(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else sum((await kept_report.count_open(visit.context.pool)).values())


async def _count_silent(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else await unresolved.count_silent(visit.context)


OVERVIEW: Final = (
    OverviewPart(template="overview_reports.html", find=_count_reports, is_waiting=True),
    OverviewPart(template="overview_silent.html", find=_count_silent, is_waiting=True),
    *gather("overview", OverviewPart),
)


async def show_overview(visit: Visit) -> Response:
    context, viewer = visit.context, visit.viewer
    charges = transfers = None
    if viewer.may_see("charge"):
        charges = await browse.browse(context, viewer, browse.CHARGES, Wanted(), None, NEWEST_COUNT)
    if viewer.may_see("transfer"):
        transfers = await browse.browse(context, viewer, browse.TRANSFERS, Wanted(), None, NEWEST_COUNT)
    endpoints: list[browse.EndpointLine] = []
    if viewer.may_see("endpoint"):
        endpoints = await browse.list_endpoint_lines(context, viewer)
    # Only operators may know which holders exist.
    holders = [] if visit.who.kind == "holder" else await holder.list_holders(visit.operator, 0, HOLDERS_MAX)
    holder_ids = [each.id for each, _ in holders] if visit.holder_id is None else [visit.holder_id]
    money = await overview.read_money(context, viewer, holder_ids)
    parts = [(each, found) for each in OVERVIEW if (found := await each.find(visit))]
    names = await browse.name_charges(context, viewer, transfers.items) if transfers else {}
    pairs = [(each.id, each.holder_id) for each in (charges.items if charges else ())]
    newest = [("charge", *pair) for pair in pairs]
    newest += [("transfer", each.id, each.holder_id) for each in (transfers.items if transfers else ())]
    return visit.page(
        "overview.html",
        charge_names=names,
        payments=await browse.find_payments(context, viewer, pairs),
        marks=await browse.read_marks(context, viewer, newest),
        week=await draw_week(visit, holder_ids) if charges else None,
        money={each.holder_id: each for each in money},
        is_first_holders=visit.holder_id is None and len(holders) == HOLDERS_MAX,
        waiting=[each for each in parts if each[0].is_waiting],
        others=[each for each in parts if not each[0].is_waiting],
        service=await visit.parts.of_features[HealthWatch].read_health(),
        charges=charges,
        transfers=transfers,
        failing=[line for line in endpoints if line.state.what in {"failing", "disabled", "inactive"}],
        endpoints_count=len(endpoints),
        holders=[each for each, _ in holders],
        now=context.clock.now(),
    )


OVERVIEW_ROUTES: Final = (PageRoute(path="/", page=show_overview),)


WIDTH: Final = 480
HEIGHT: Final = 200
_LEFT: Final = 52
_BOTTOM: Final = 22
_TOP: Final = 10
_LABELS_MAX: Final = 6
_LINES: Final = 4


class BarPart(Struct, frozen=True, kw_only=True):
    status: str
    count: int
    y: float
    height: float


class Bar(Struct, frozen=True, kw_only=True):
    x: float
    width: float
    label: str
    parts: tuple[BarPart, ...]
    is_labelled: bool  # whether there is room for its label below it


class Chart(Struct, frozen=True, kw_only=True):
    width: int
    height: int
    left: int
    base: int  # the baseline of the bars
    bars: tuple[Bar, ...]
    lines: tuple[tuple[float, int], ...]  # grid lines, with the value of each
    statuses: tuple[str, ...]  # in stacking order
    totals: Mapping[str, int]


def list_steps(initial_at: datetime, final_at: datetime, step: Step, zone: Callable[[datetime], datetime]) -> list[datetime]:
    """List when each step of a span begins, in the visitor's time zone."""
    local = zone(initial_at).replace(minute=0, second=0, microsecond=0)
    at = local.replace(hour=0) if step == "day" else local
    length, found = timedelta(days=1) if step == "day" else timedelta(hours=1), list[datetime]()
    while at <= final_at:
        found.append(at)
        at += length
    return found


def stack(series: Sequence[Series], order: Sequence[str], steps: Sequence[datetime], label: Callable[[datetime], str]) -> Chart:
    """Bars of the things created in each step, stacked by state."""
    counts = {each.status: dict(each.points) for each in series}
    statuses = tuple(status for status in order if any(counts.get(status, {}).values()))
    columns = [(label(at), [(status, counts[status].get(at, 0)) for status in statuses]) for at in steps]
    return _draw(columns, statuses)


def spread_out(spread: Spread, label: Callable[[int], str], status: str) -> Chart:
    return _draw([(label(bound), [(status, count)]) for bound, count in spread.buckets], (status,))


def _draw(columns: Sequence[tuple[str, Sequence[tuple[str, int]]]], statuses: tuple[str, ...]) -> Chart:
    highest = max((sum(count for _, count in parts) for _, parts in columns), default=0)
    unit = _round_up(highest / _LINES)
    base, room = HEIGHT - _BOTTOM, HEIGHT - _BOTTOM - _TOP
    scale = room / (unit * _LINES)
    pitch = (WIDTH - _LEFT) / max(1, len(columns))
    every = -(-len(columns) // _LABELS_MAX)
    bars: list[Bar] = []
    for number, (label, counts) in enumerate(columns):
        parts, y = list[BarPart](), float(base)
        for status, count in counts:
            # Every value is visible, however small it is beside the highest.
            height = max(1.0, count * scale) if count > 0 else 0.0
            y -= height
            if count > 0:
                parts.append(BarPart(status=status, count=count, y=round(y, 1), height=round(height, 1)))
        bars.append(
            Bar(
                x=round(_LEFT + number * pitch + pitch * 0.1, 1),
                width=round(pitch * 0.8, 1),
                label=label,
                parts=tuple(parts),
                is_labelled=number % max(1, every) == 0,
            )
        )
    totals = {status: sum(dict(counts)[status] for _, counts in columns) for status in statuses}
    lines = tuple((round(base - unit * line * scale, 1), unit * line) for line in range(_LINES + 1))
    return Chart(
        width=WIDTH, height=HEIGHT, left=_LEFT, base=base, bars=tuple(bars), lines=lines, statuses=statuses, totals=totals
    )


def _round_up(value: float) -> int:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= value:
                return digit * power
        power *= 10


SPANS: Final = dict[str, tuple[timedelta, Step]](
    {
        "1": (timedelta(hours=23), "hour"),
        "7": (timedelta(days=6), "day"),
        "30": (timedelta(days=29), "day"),
        "90": (timedelta(days=89), "day"),
    }
)
"""Days that are shown, and in which steps."""
_DEFAULT: Final = "1"
_ORDERS: Final = dict[str, tuple[str, ...]](
    charge=("APPROVED", "RETURNED", "PENDING", "EXPIRED", *(each for each in STATUSES if each.startswith("REMOVED"))),
    transfer=("CONFIRMED", "RETURNED", "PROCESSING", "CANCELLED", "ERROR"),
    refund=("RETURNED", "PROCESSING", "ERROR"),
    delivery=("delivered", "pending", "failed"),
)
"""The states of each kind in stacking order, successes at the bottom."""


async def show_figures(visit: Visit) -> Response:
    chosen = visit.query("days") if visit.query("days") in SPANS else _DEFAULT
    length, step = SPANS[chosen]
    final_at = await service_now(visit.context.clock, visit.context.pool)
    steps = list_steps(final_at - length, final_at, step, lambda at: at.astimezone(SAO_PAULO))
    found = await overview.read_figures(visit.context, visit.viewer, steps[0], final_at, step)

    def label(at: datetime) -> str:
        return f"{at:%H:%M}" if step == "hour" else f"{at:%d/%m}"

    def bound(us: int) -> str:
        return visit.language.duration(timedelta(microseconds=us))

    of_kind = {kind: [each for each in found.series if each.kind == kind] for kind in _ORDERS}
    of_kind["delivery"] = _with_pending(of_kind["delivery"])
    drawn = {kind: stack(of_kind[kind], order, steps, label) for kind, order in _ORDERS.items()}
    spent = next((sum(count for _, count in each.points) for each in found.series if each.kind == "spent"), None)
    settling = delivering = None
    if found.settling is not None:
        settling = spread_out(found.settling, bound, "CONFIRMED")
    if found.delivering is not None:
        delivering = spread_out(found.delivering, bound, "delivered")
    return visit.page(
        "figures.html",
        found=found,
        drawn={kind: chart for kind, chart in drawn.items() if chart.totals},
        # The successes, and the total.
        shares={
            kind: (chart.totals.get(order[0], 0), sum(chart.totals.values()))
            for (kind, order), chart in zip(_ORDERS.items(), drawn.values(), strict=True)
        },
        spent_cents=spent,
        settling=settling,
        delivering=delivering,
        spans=tuple(SPANS),
        chosen=chosen,
    )


async def draw_week(visit: Visit, holder_ids: Sequence[int]) -> Chart | None:
    """The charges that these holders made on each of the last seven days; ``None`` where there is none."""
    length, step = SPANS["7"]
    now = await service_now(visit.context.clock, visit.context.pool)
    steps = list_steps(now - length, now, step, lambda at: at.astimezone(SAO_PAULO))
    series = await overview.read_days(visit.context, holder_ids, steps[0], now)
    found = [each for each in series if each.kind == "charge"]
    drawn = stack(found, _ORDERS["charge"], steps, lambda at: f"{at:%d/%m}")
    return drawn if drawn.totals else None


def _with_pending(series: list[Series]) -> list[Series]:
    """Add pending deliveries: made, but neither delivered nor failed."""
    points: dict[datetime, int] = {}
    for each in series:
        for at, count in each.points:
            points[at] = points.get(at, 0) + (count if each.status == "made" else -count)
    return [
        *(each for each in series if each.status != "made"),
        Series(kind="delivery", status="pending", points=tuple(sorted(points.items()))),
    ]


ROUTES: Final = (PageRoute(path="/figures", page=show_figures, may_be_old=True),)
