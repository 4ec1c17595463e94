"""``deploy/grafana/pixconnect.json``: a dashboard for Grafana, from the rows below.

A row of panels answers one question. A panel is a title, one of Grafana's units, and queries with their legends.
``$institution`` is chosen at the top. Written by ``make docs``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

FILE: Final = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "pixconnect.json"
COLUMNS_COUNT: Final = 24
PANEL_HEIGHT: Final = 8
TITLE: Final = "Pix Connect"


class Panel(Struct, frozen=True):
    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    """The queries, each with its legend."""


_HERE: Final = '{institution=~"$institution"}'
ROWS: Final[tuple[tuple[str, tuple[Panel, ...]], ...]] = (
    (
        "Does money come in?",
        (
            Panel(
                "Pix received within the hour, and what the least of the last weeks had",
                "none",
                (
                    (f"max by (institution) (pixconnect_institution_received_last_hour{_HERE})", "{{institution}}"),
                    (f"pixconnect:received_least:1h{_HERE}", "{{institution}}, least of the weeks"),
                ),
            ),
            Panel(
                "Last whole reading",
                "s",
                ((f"max by (institution) (pixconnect_institution_unread_seconds{_HERE})", "{{institution}}"),),
            ),
            Panel(
                "Calls to institutions, by outcome",
                "reqps",
                (
                    (
                        f"sum by (institution, outcome) (rate(pixconnect_institution_calls_total{_HERE}[5m]))",
                        "{{institution}} {{outcome}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "Does money go out?",
        (
            Panel("Open orders", "none", (("max by (kind, state) (pixconnect_orders_open)", "{{kind}} {{state}}"),)),
            Panel(
                "Oldest open and oldest silent order",
                "s",
                (
                    ("max by (kind) (pixconnect_order_oldest_open_age_seconds)", "{{kind}}, open"),
                    ("max by (kind) (pixconnect_order_oldest_silent_age_seconds)", "{{kind}}, silent"),
                ),
            ),
            Panel(
                "Queued over an account, and what is there meanwhile (cents)",
                "none",
                (
                    (f"max by (institution) (pixconnect_institution_queued_cents{_HERE})", "{{institution}}, queued"),
                    (f"max by (institution) (pixconnect_institution_balance_cents{_HERE})", "{{institution}}, there"),
                ),
            ),
        ),
    ),
    (
        "Do the books agree?",
        (
            Panel(
                "Oldest day that did not close",
                "s",
                (
                    (
                        f"max by (institution) (pixconnect_institution_unclosed_day_age_seconds{_HERE})",
                        "{{institution}}",
                    ),
                ),
            ),
            Panel(
                "Cases and kept reports",
                "none",
                (
                    ("max by (kind) (pixconnect_cases)", "case: {{kind}}"),
                    ("max by (reason) (pixconnect_reports_kept)", "report: {{reason}}"),
                ),
            ),
            Panel(
                "Since the books were proved, and accounts that are paused",
                "s",
                (
                    ("max by (extent) (pixconnect_verify_age_seconds)", "verify {{extent}}"),
                    (
                        f"max by (institution, reason) (pixconnect_institution_paused{_HERE})",
                        "{{institution}}: {{reason}}",
                    ),
                ),
            ),
        ),
    ),
    (
        "How are callers served?",
        (
            Panel(
                "Requests by status",
                "reqps",
                (("sum by (status) (rate(pixconnect_requests_total[5m]))", "{{status}}"),),
            ),
            Panel(
                "Slowest twentieth by operation",
                "s",
                (
                    (
                        "histogram_quantile(0.95, "
                        "sum by (operation, le) (rate(pixconnect_request_duration_seconds_bucket[5m])))",
                        "{{operation}}",
                    ),
                ),
            ),
            Panel(
                "Writes that wait, and how many are committed together",
                "none",
                (
                    ("max by (write) (pixconnect_group_queue_length)", "{{write}}, waiting"),
                    (
                        "sum by (write) (rate(pixconnect_group_size_sum[5m]))"
                        " / sum by (write) (rate(pixconnect_group_size_count[5m]) > 0)",
                        "{{write}}, together",
                    ),
                ),
            ),
        ),
    ),
    (
        "Do receivers hear of it?",
        (
            Panel(
                "Oldest due delivery, and lag of the feed",
                "s",
                (
                    ("max(pixconnect_delivery_oldest_due_age_seconds)", "delivery"),
                    ("max(pixconnect_feed_lag_seconds)", "feed"),
                ),
            ),
            Panel(
                "Deliveries that are due, in flight, given up",
                "none",
                (
                    ("max(pixconnect_deliveries_due)", "due"),
                    ("sum(pixconnect_deliveries_in_flight)", "in flight"),
                    ("sum(increase(pixconnect_deliveries_given_up_total[1h]))", "given up within the hour"),
                ),
            ),
            Panel("Events that got a position", "ops", (("sum(rate(pixconnect_feed_positions_total[5m]))", "events"),)),
        ),
    ),
    (
        "Is the service well?",
        (
            Panel("Processes that answer", "none", (('up{job="pixconnect"}', "{{instance}}"),)),
            Panel(
                "Checks of health that fail",
                "none",
                (("max by (check) (pixconnect_health_check_failed)", "{{check}}"),),
            ),
            Panel(
                "Slots held, and partitions ahead",
                "none",
                (
                    ("sum(pixconnect_slots_held)", "slots"),
                    ("min by (table) (pixconnect_partitions_ahead)", "{{table}}"),
                ),
            ),
        ),
    ),
)


def list_queries() -> list[str]:
    """All queries of the dashboard, for all institutions."""
    return [query.replace("$institution", ".*") for _, panels in ROWS for panel in panels for query, _ in panel.queries]


def render_dashboard() -> str:
    """The JSON that Grafana imports, by its documented schema."""
    panels = list[dict[str, Any]]()
    height = 0
    for title, row in ROWS:
        panels.append(
            dict(
                id=len(panels) + 1,
                type="row",
                title=title,
                collapsed=False,
                gridPos=_place(0, height, COLUMNS_COUNT, 1),
                panels=[],
            )
        )
        height += 1
        width = COLUMNS_COUNT // len(row)
        for number, panel in enumerate(row):
            place = _place(number * width, height, width, PANEL_HEIGHT)
            panels.append(_render_panel(panel, len(panels) + 1, place))
        height += PANEL_HEIGHT
    whole = dict(
        uid="pixconnect",
        title=TITLE,
        tags=["pix"],
        timezone="browser",
        schemaVersion=39,
        version=1,
        editable=True,
        refresh="30s",
        time={"from": "now-24h", "to": "now"},
        templating=dict(list=[_DATASOURCE, _INSTITUTION]),
        annotations=dict(list=[]),
        panels=panels,
    )
    return json.dumps(whole, indent=2) + "\n"


_SOURCE: Final = dict(type="prometheus", uid="${datasource}")
_DATASOURCE: Final[dict[str, Any]] = dict(name="datasource", label="Prometheus", type="datasource", query="prometheus")
_INSTITUTION: Final[dict[str, Any]] = dict(
    name="institution",
    label="Account at an institution",
    type="query",
    datasource=_SOURCE,
    query=dict(query="label_values(pixconnect_institution_poll_seconds, institution)", refId="institution"),
    refresh=2,
    includeAll=True,
    multi=True,
    allValue=".*",
    current=dict(text="All", value="$__all"),
)


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
            for count, (query, legend) in enumerate(panel.queries)
        ],
    )
