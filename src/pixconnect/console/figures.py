"""Figures over time, from the hourly totals; and how long the newest took, of which there are none."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from starlette.responses import Response

from pixconnect.console import charts
from pixconnect.console.application import PageRoute
from pixconnect.console.charts import Chart
from pixconnect.console.visit import Visit
from pixconnect.domain.frame.civil_time import SAO_PAULO
from pixconnect.domain.money.charge import STATUSES
from pixconnect.domain.reading.figures import Series, Step
from pixconnect.usecases.reading import figures
from pixconnect.writing.service_time import service_now

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
"""The states of each kind, as they stand on each other: what went well stands at the bottom."""


async def show_figures(visit: Visit) -> Response:
    chosen = visit.query("days") if visit.query("days") in SPANS else _DEFAULT
    length, step = SPANS[chosen]
    final_at = await service_now(visit.context.clock, visit.context.pool)
    steps = charts.list_steps(final_at - length, final_at, step, lambda at: at.astimezone(SAO_PAULO))
    found = await figures.read_figures(visit.context, visit.viewer, steps[0], final_at, step)

    def label(at: datetime) -> str:
        return f"{at:%H:%M}" if step == "hour" else f"{at:%d/%m}"

    def bound(us: int) -> str:
        return visit.language.duration(timedelta(microseconds=us))

    of_kind = {kind: [each for each in found.series if each.kind == kind] for kind in _ORDERS}
    of_kind["delivery"] = _with_pending(of_kind["delivery"])
    drawn = {kind: charts.stack(of_kind[kind], order, steps, label) for kind, order in _ORDERS.items()}
    spent = next((sum(count for _, count in each.points) for each in found.series if each.kind == "spent"), None)
    settling = delivering = None
    if found.settling is not None:
        settling = charts.spread_out(found.settling, bound, "CONFIRMED")
    if found.delivering is not None:
        delivering = charts.spread_out(found.delivering, bound, "delivered")
    return visit.page(
        "figures.html",
        found=found,
        drawn={kind: chart for kind, chart in drawn.items() if chart.totals},
        shares={
            kind: _share(chart, order[0]) for (kind, order), chart in zip(_ORDERS.items(), drawn.values(), strict=True)
        },
        spent_cents=spent,
        settling=settling,
        delivering=delivering,
        spans=tuple(SPANS),
        chosen=chosen,
    )


def _share(chart: Chart, good: str) -> tuple[int, int]:
    """How many went well, and of how many."""
    return chart.totals.get(good, 0), sum(chart.totals.values())


def _with_pending(series: list[Series]) -> list[Series]:
    """Deliveries are counted as made, and as what they became: those in between wait."""
    points: dict[datetime, int] = {}
    for each in series:
        for at, count in each.points:
            points[at] = points.get(at, 0) + (count if each.status == "made" else -count)
    return [
        *(each for each in series if each.status != "made"),
        Series(kind="delivery", status="pending", points=tuple(sorted(points.items()))),
    ]


ROUTES: Final = (PageRoute(path="/figures", page=show_figures, may_be_old=True),)
