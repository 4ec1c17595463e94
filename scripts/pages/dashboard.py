"""``deploy/grafana/pixconnect.json``: a dashboard for Grafana, from the rows below.

A row of panels answers one question. A panel is a title, one of Grafana's units, and queries with their legends.
``$institution`` is chosen at the top. Written by ``make docs``.
"""

import json
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

FILE: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "pixconnect.json"
COLUMNS_COUNT: Final = 24
PANEL_HEIGHT: Final = 8


class Panel(Struct, frozen=True):
    title: str
    unit: str
    queries: dict[str, str]  # the queries by their legends


_CHOSEN: Final = '{institution=~"$institution"}'


def _of_accounts(name: str, by: str = "institution") -> str:
    return f"max by ({by}) (pixconnect_institution_{name}{_CHOSEN})"


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Does money come in?": (
        Panel("Pix received within the hour, and what the least of the last weeks had", "none", {
            "{{institution}}": _of_accounts("received_last_hour"),
            "{{institution}}, least of the weeks": f"pixconnect:received_least:1h{_CHOSEN}",
        }),
        Panel("Last whole reading", "s", {"{{institution}}": _of_accounts("unread_seconds")}),
        Panel("Calls to institutions, by outcome", "reqps", {
            "{{institution}} {{outcome}}":
                f"sum by (institution, outcome) (rate(pixconnect_institution_calls_total{_CHOSEN}[5m]))",
        }),
    ),
    "Does money go out?": (
        Panel("Open orders", "none", {"{{kind}} {{state}}": "max by (kind, state) (pixconnect_orders_open)"}),
        Panel("Oldest open and oldest silent order", "s", {
            "{{kind}}, open": "max by (kind) (pixconnect_order_oldest_open_age_seconds)",
            "{{kind}}, silent": "max by (kind) (pixconnect_order_oldest_silent_age_seconds)",
        }),
        Panel("Queued over an account, and what is there meanwhile (cents)", "none", {
            "{{institution}}, queued": _of_accounts("queued_cents"),
            "{{institution}}, there": _of_accounts("balance_cents"),
        }),
    ),
    "Do the books agree?": (
        Panel("Oldest day that did not close", "s", {"{{institution}}": _of_accounts("unclosed_day_age_seconds")}),
        Panel("Cases and kept reports", "none", {
            "case: {{kind}}": "max by (kind) (pixconnect_cases)",
            "report: {{reason}}": "max by (reason) (pixconnect_reports_kept)",
        }),
        Panel("Since the books were proved, and accounts that are paused", "s", {
            "verify {{extent}}": "max by (extent) (pixconnect_verify_age_seconds)",
            "{{institution}}: {{reason}}": _of_accounts("paused", "institution, reason"),
        }),
    ),
    "How are callers served?": (
        Panel("Requests by status", "reqps", {"{{status}}": "sum by (status) (rate(pixconnect_requests_total[5m]))"}),
        Panel("Slowest twentieth by operation", "s", {
            "{{operation}}":
                "histogram_quantile(0.95, sum by (operation, le) (rate(pixconnect_request_duration_seconds_bucket[5m])))",
        }),
        Panel("Writes that wait, and how many are committed together", "none", {
            "{{write}}, waiting": "max by (write) (pixconnect_group_queue_length)",
            "{{write}}, together":
                "sum by (write) (rate(pixconnect_group_size_sum[5m]))"
                " / sum by (write) (rate(pixconnect_group_size_count[5m]) > 0)",
        }),
    ),
    "Do receivers hear of it?": (
        Panel("Oldest due delivery, and lag of the feed", "s", {
            "delivery": "max(pixconnect_delivery_oldest_due_age_seconds)", "feed": "max(pixconnect_feed_lag_seconds)",
        }),
        Panel("Deliveries that are due, in flight, given up", "none", {
            "due": "max(pixconnect_deliveries_due)",
            "in flight": "sum(pixconnect_deliveries_in_flight)",
            "given up within the hour": "sum(increase(pixconnect_deliveries_given_up_total[1h]))",
        }),
        Panel("Events that got a position", "ops", {"events": "sum(rate(pixconnect_feed_positions_total[5m]))"}),
    ),
    "Is the service well?": (
        Panel("Processes that answer", "none", {"{{instance}}": 'up{job="pixconnect"}'}),
        Panel("Checks of health that fail", "none", {"{{check}}": "max by (check) (pixconnect_health_check_failed)"}),
        Panel("Slots held, and partitions ahead", "none", {
            "slots": "sum(pixconnect_slots_held)", "{{table}}": "min by (table) (pixconnect_partitions_ahead)",
        }),
    ),
}  # fmt: skip


def list_queries() -> list[str]:
    """All queries of the dashboard, for all institutions."""
    shown = [panel for panels in ROWS.values() for panel in panels]
    return [query.replace("$institution", ".*") for panel in shown for query in panel.queries.values()]


def render_dashboard() -> str:
    """The JSON that Grafana imports, by its documented schema."""
    panels = list[dict[str, Any]]()
    height = 0
    for title, row in ROWS.items():
        place = _place(0, height, COLUMNS_COUNT, 1)
        panels.append(dict(id=len(panels) + 1, type="row", title=title, collapsed=False, gridPos=place, panels=[]))
        height += 1
        width = COLUMNS_COUNT // len(row)
        for number, panel in enumerate(row):
            place = _place(number * width, height, width, PANEL_HEIGHT)
            panels.append(_render_panel(panel, len(panels) + 1, place))
        height += PANEL_HEIGHT
    whole = dict(
        uid="pixconnect", title="Pix Connect", tags=["pix"], timezone="browser", schemaVersion=39, version=1,
        editable=True, refresh="30s", time={"from": "now-24h", "to": "now"},
        templating=dict(list=[_DATASOURCE, _INSTITUTION]), annotations=dict(list=[]), panels=panels,
    )  # fmt: skip
    return json.dumps(whole, indent=2) + "\n"


_SOURCE: Final = dict(type="prometheus", uid="${datasource}")
_DATASOURCE: Final[dict[str, Any]] = dict(name="datasource", label="Prometheus", type="datasource", query="prometheus")
_INSTITUTION: Final[dict[str, Any]] = dict(
    name="institution", label="Account at an institution", type="query", datasource=_SOURCE,
    query=dict(query="label_values(pixconnect_institution_poll_seconds, institution)", refId="institution"),
    refresh=2, includeAll=True, multi=True, allValue=".*", current=dict(text="All", value="$__all"),
)  # fmt: skip


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return dict(x=x, y=y, w=w, h=h)


def _render_panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return dict(
        id=number,
        type="timeseries",
        title=panel.title,
        datasource=_SOURCE,
        gridPos=place,
        fieldConfig=dict(defaults=dict(unit=panel.unit, min=0), overrides=[]),
        options=dict(legend=dict(displayMode="list", placement="bottom", showLegend=True), tooltip=dict(mode="multi")),
        targets=[
            dict(refId=chr(ord("A") + count), datasource=_SOURCE, expr=query, legendFormat=legend, range=True)
            for count, (legend, query) in enumerate(panel.queries.items())
        ],
    )
