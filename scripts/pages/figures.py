"""``docs/reference/figures.md`` and its charts, from what ``bench/run.py`` kept."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench.figures import RESULTS, Row
from scripts.pages.charts import Bar, draw_bars
from support.greedy_holder import worst_of

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference"
CHARTS_FOLDER = "figures"
"""Beside the page."""
BEGIN = "bench/run.py --only "

_HEAD = """\
# Figures

What `bench/run.py` measured; `make bench` measures a part of it again in about six minutes, and writes this page and its
charts. Durable settings, the defaults of `make run`, everything on the same cores: the service, its PostgreSQL, the simulated
network, the receivers and whoever makes the load. Such machines change from minute to minute, so that a ratio within one run
says more than a rate. All rows with all their fields are in `bench/results.json`.

A figure is measured again by `.venv/bin/python bench/run.py --only` and the words in the third column. What exactly is counted
stands at the head of the file in `bench/measures/`. The fourth column has the commit that was measured, and on which machine;
where it names none, {old_machine} was noted. Figures of different commits are not to be compared. How to see where the time
goes: [profile](../guides/profile.md).

`pgbench` is `pgbench -N -M prepared -c 16` on the service's own PostgreSQL, in turn with each round.
"""


LONE_RATES = (1, 20, 100)
_MACHINES = "ABCDEFGH"


class Line(NamedTuple):
    """What is said of one row of the results."""

    measure: str
    name: str
    what: str
    say: Callable[[Row], str]


def _accepted(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s, {row['ratio']:.2f} x pgbench; p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms; "
        f"CPU each {_cpu(row)} µs"
    )


def _cpu(row: Row) -> str:
    return ", ".join(f"{kind} {us:,.0f}" for kind, us in row["cpu_us_each"].items() if us >= 1)


def _asked(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s; p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms; CPU each {_cpu(row)} µs, "
        f"{row['cpu_us_each_in_all']:,.0f} in all"
    )


def _lone(row: Row) -> str:
    return (
        f"p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms; CPU each, beyond what the service uses at rest, "
        f"{row['cpu_us_each_in_all'] / 1000:.1f} ms ({_cpu(row)} µs)"
    )


def _lone_transfer(row: Row) -> str:
    return f"{_lone(row)}; answered after p50 {row['accepted_p50_ms']:.1f} ms; the simulated network takes 50 ms"


def _overload(row: Row) -> str:
    return (
        f"can take {row['capacity_per_second']:,.0f} lives/s, is asked for {row['offered_per_second']:,.0f}/s: "
        f"{row['served_part']:.0%} of what it can take is served; accepted {row['accepted']:,} after p50 "
        f"{row['accepted_p50_ms']:,.0f} ms, p99 {row['accepted_p99_ms']:,.0f} ms; refused {row['refused']:,} after p50 "
        f"{row['refused_p50_ms']:,.0f} ms, p99 {row['refused_p99_ms']:,.0f} ms; otherwise failed {row['failed']:,}. Ten "
        f"seconds later {row['left']['orders']:,} orders and {row['left']['deliveries']:,} webhooks were left; calm requests "
        f"p99 {row['calm_before_p99_ms']:.0f} ms before, {row['calm_after_p99_ms']:.0f} ms after"
    )


def _standby(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s, without it {row['without']['per_second']:,.0f}/s; p50 {row['p50_ms']:.1f} ms, without "
        f"{row['without']['p50_ms']:.1f} ms; CPU each {row['cpu_us_each_in_all']:,.0f} µs, without "
        f"{row['without']['cpu_us_each_in_all']:,.0f} µs, and {row['standby_cpu_us_each']:,.0f} µs of the standby itself"
    )


def _growth(row: Row) -> str:
    pages = row["pages"]
    names = {"first": "the first", "by_cursor": "by cursor behind half of all", "by_number": "the hundredth by number"}
    said = ", ".join(
        f"{name} {pages[key]['cpu_us_each_in_all'] / 1000:.1f} ms of CPU, p50 {pages[key]['p50_ms']:.1f} ms"
        for key, name in names.items()
    )
    return (
        f"lives {row['life']['per_second']:,.0f}/s, {row['life']['cpu_us_each_in_all']:,.0f} µs of CPU each, p99 "
        f"{row['life']['p99_ms']:.0f} ms; a page of 100 transfers: {said}"
    )


def _life(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s for {row['seconds']:.0f} s with {row['in_flight']} at once; p50 {row['p50_ms']:.0f} ms, "
        f"p99 {row['p99_ms']:.0f} ms; CPU each {row['cpu_us_each_in_all']:,.0f} µs in all; open at the end of each 5 s: orders "
        f"{min(row['orders_open'])} to {max(row['orders_open'])}, deliveries {min(row['deliveries_due'])} to "
        f"{max(row['deliveries_due'])}"
    )


def _delivered(row: Row) -> str:
    cpu = row["cpu_us_each"]
    return f"{row['per_second']:,.0f}/s; CPU each: worker {cpu['worker']:.0f} µs, PostgreSQL {cpu['postgres']:.0f} µs"


def _statement(row: Row) -> str:
    return (
        f"{row['seconds']:.0f} s, {row['cpu_seconds']:.0f} s of CPU, {row['megabytes']:,.0f} MB; API process at most "
        f"{row['peak_mib']:.0f} MiB"
    )


def _claim(row: Row) -> str:
    return (
        f"p50 {row['claim_p50_ms']:.2f} ms, p99 {row['claim_p99_ms']:.1f} ms; looking through everything, which happens once a "
        f"minute, at most {row['sweep_max_ms']:.0f} ms"
    )


def _fairness(row: Row) -> str:
    return (
        f"{row['p99_ms_alone']:.0f} ms alone, {row['p99_ms_beside']:.0f} ms beside it: {'' if row['is_fair'] else 'not '}fair; "
        f"{row['p99_ms_beside_asking_elsewhere']:.0f} ms while it asks elsewhere; the nine themselves woken "
        f"{row['p99_ms_woken_late']:.0f} ms late"
    )


def _hot_share(row: Row) -> str:
    return (
        f"{row['per_second_alone']:,.0f}/s alone, {row['share_kept']:.2f} of that beside the nine, whose p99 is "
        f"{row['p99_ms_alone']:.0f} ms alone and {row['p99_ms_beside']:.0f} ms beside it"
    )


_PARTS: dict[str, list[Line]] = {
    "Start and rest": [
        Line("start", "start_cold", "ready, on a new home", lambda row: f"{row['seconds']:.1f} s"),
        Line("start", "start_warm", "ready, on an existing one", lambda row: f"{row['seconds']:.1f} s"),
        Line(
            "rest",
            "rest",
            "with nothing to do",
            lambda row: f"{row['cpu_percent_in_all']:.1f} % of a core, {row['resident_mib_in_all']:.0f} MiB in all",
        ),
    ],
    "Requests accepted": [
        Line("charge", "create_charge", "charges of one account, 64 connections", _accepted),
        Line("one_a_group", "create_charge_one_a_group", "the same, each in a transaction of its own", _accepted),
        Line(
            "charge",
            "create_charge_alone",
            "one caller alone",
            lambda row: f"p50 {row['p50_ms']:.2f} ms, p99 {row['p99_ms']:.1f} ms",
        ),
        Line(
            "transfer_hot",
            "transfer_64_accepted_alone",
            "transfers of one account, 64 connections; the worker stands still",
            _accepted,
        ),
        Line(
            "transfer_hot",
            "transfer_16",
            "transfers of one account while the worker settles them, 16 connections",
            _accepted,
        ),
        Line("transfer_hot", "transfer_64", "the same, 64 connections", _accepted),
        Line("transfer_hot", "transfer_256", "the same, 256 connections", _accepted),
        Line(
            "one_a_group", "transfer_64_one_a_group", "64 connections, each step in a transaction of its own", _accepted
        ),
        Line(
            "transfer_key",
            "transfer_key_64",
            "transfers of one account by key, 64 connections: the network is asked before one is accepted",
            _accepted,
        ),
        Line(
            "transfer_spread",
            "transfer_spread",
            "the same over 1 000 holders, each with its own client, 256 connections",
            _accepted,
        ),
        Line("token", "token", "access tokens, 16 connections", _asked),
        Line(
            "picture",
            "picture",
            "charges with a picture of their code, 16 connections",
            lambda row: f"{_asked(row)}; the picture is {row['picture_cpu_us_each']:,.0f} µs of it",
        ),
    ],
    "Whole lives": [
        Line("charge_life", "charge_life", "charge created, paid, the webhook of that received", _life),
        Line("charge_paid", "charge_paid", "charge created, paid, the webhooks of both received", _life),
        Line(
            "transfer_life", "transfer_life", "transfer accepted, handed over, settled, both webhooks received", _life
        ),
        Line(
            "transfer_life_one_a_group",
            "transfer_life_one_a_group",
            "the same, each step in a transaction of its own",
            _life,
        ),
        Line(
            "confirmed",
            "confirmed",
            "from the request to CONFIRMED at the client's receiver, 100 a second",
            lambda row: (
                f"p50 {row['p50_ms']:.0f} ms, p99 {row['p99_ms']:.0f} ms, of which the simulated network "
                f"{row['sandbox_latency_ms']} ms"
            ),
        ),
    ],
    "One alone": [
        *(
            Line(
                "lone_transfer",
                f"lone_transfer_{rate}",
                f"transfers at {rate} a second, from the request to CONFIRMED at the receiver",
                _lone_transfer,
            )
            for rate in LONE_RATES
        ),
        *(
            Line(
                "lone_event",
                f"lone_event_{rate}",
                f"events at {rate} a second, from the commit to the receiver",
                _lone,
            )
            for rate in LONE_RATES
        ),
    ],
    "More than it can take": [
        Line(
            "overload",
            "overload",
            "four times as many transfers as it can settle and tell; who asks has a core to itself",
            _overload,
        ),
    ],
    "With a synchronous standby": [
        Line("standby", "standby_charge", "charges of one account, 64 connections", _standby),
        Line("standby", "standby_transfer_64", "transfers and settling, 64 connections", _standby),
        Line("standby", "standby_transfer_life", "transfer's life, both webhooks received", _standby),
    ],
    "Growth": [
        Line("growth", f"growth_{count}", f"beside {count:,} transfers of the same holder", _growth)
        for count in (10_000, 1_000_000, 10_000_000)
    ],
    "Webhooks": [
        Line("deliveries", "deliveries_1_plain", "one receiver, http", _delivered),
        Line("deliveries", "deliveries_1_tls", "one receiver, https", _delivered),
        Line("deliveries", "deliveries_200_plain", "200 receivers, http", _delivered),
        Line("deliveries", "deliveries_200_tls", "200 receivers, https", _delivered),
        Line(
            "first_octet",
            "first_octet",
            "from the commit to the first octet at the receiver, 500 events a second",
            lambda row: f"p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms",
        ),
        Line(
            "isolation",
            "isolation",
            "200 endpoints of which 10 hang, 10 drip and 10 refuse: p99 of the others, with these by without",
            lambda row: f"{row['ratio']:.2f} (rounds {', '.join(f'{ratio:.2f}' for ratio in row['ratios'])})",
        ),
        Line(
            "kills",
            "kills",
            "kill -9 of workers during 10 000 events",
            lambda row: (
                f"{row['kills']} kills: {row['lost']} lost, {row['out_of_order']} out of order, {row['duplicated']} twice; "
                f"sent again after at most {row['sent_again_after_max_s']:.1f} s"
            ),
        ),
        Line("claim", "claim_few", "finding what is due, with few delivered rows", _claim),
        Line("claim", "claim_many", "the same, with 10 million", _claim),
        Line("claim", "claim_many_pinned", "the same, and an idle transaction open for 10 minutes", _claim),
        Line(
            "targets",
            "forbidden_connects",
            "addresses where webhooks may not go, in every spelling",
            lambda row: f"{row['connects']} connects in {row['tries']:,} tries",
        ),
    ],
    "Fairness": [
        *(
            Line(
                "fairness",
                f"fairness_{kind.replace(' ', '_')}",
                f"p99 of nine calm holders beside a tenth's {kind}",
                _fairness,
            )
            for kind in worst_of("", 0)
        ),
        Line("hot_share", "hot_charges_beside_nine", "charges of a hot account, 64 connections", _hot_share),
        Line("hot_share", "hot_transfers_beside_nine", "transfers of a hot account, 64 connections", _hot_share),
    ],
    "A statement of a million lines": [
        Line("statement", f"statement_{name}", title, _statement)
        for name, title in {"json": "JSON", "csv": "CSV", "ofx": "OFX", "camt053": "camt.053"}.items()
    ],
}


_PROCESSES = ("api", "worker", "postgres", "sandbox")


def _draw_cost(rows: Mapping[str, Row]) -> str | None:
    labels = {
        "create_charge": "charge",
        "transfer_64_accepted_alone": "transfer accepted, worker stopped",
        "transfer_256": "transfer and settling, 256 conn.",
        "transfer_64": "transfer and settling, 64 conn.",
        "transfer_16": "transfer and settling, 16 conn.",
        "transfer_key_64": "transfer by key and settling, 64 conn.",
        "token": "access token, 16 conn.",
        "picture": "charge with a picture, 16 conn.",
        "transfer_life": "transfer's life, two webhooks",
        "charge_paid": "charge's life, two webhooks",
    }
    bars = [_cost_bar(label, rows[name]) for name, label in labels.items() if name in rows]
    return draw_bars("CPU of one, in microseconds, by process", bars) if bars else None


def _draw_ratios(rows: Mapping[str, Row]) -> str | None:
    labels = {
        "create_charge": "charges, 64 connections",
        "transfer_64_accepted_alone": "transfers accepted, worker stopped",
        "transfer_256": "transfers and settling, 256 conn.",
        "transfer_64": "transfers and settling, 64 conn.",
        "transfer_16": "transfers and settling, 16 conn.",
        "transfer_spread": "transfers of 1 000 holders, 256 conn.",
        "transfer_key_64": "transfers by key, 64 conn.",
    }
    bars = [
        Bar(label, [("", rows[name]["ratio"])], f"{rows[name]['ratio']:.2f} ({rows[name]['per_second']:,.0f}/s)")
        for name, label in labels.items()
        if name in rows
    ]
    return draw_bars("Requests for each transaction of pgbench", bars, ("pgbench itself", 1.0)) if bars else None


def _draw_batches(rows: Mapping[str, Row]) -> str | None:
    pairs = {
        "charge": ("create_charge", "create_charge_one_a_group"),
        "transfer and settling": ("transfer_64", "transfer_64_one_a_group"),
        "transfer's life": ("transfer_life", "transfer_life_one_a_group"),
    }
    bars = [
        _cost_bar(f"{label}, {how}", rows[name], f"{rows[name]['per_second']:,.0f}/s")
        for label, names in pairs.items()
        if all(name in rows for name in names)
        for name, how in zip(names, ("in batches", "a transaction each"), strict=True)
    ]
    return draw_bars("What batches buy: CPU of one, in microseconds, and how many a second", bars) if bars else None


def _draw_lone(rows: Mapping[str, Row]) -> str | None:
    bars = [
        _cost_bar(f"{what} at {rate} a second", row, f"p50 {row['p50_ms']:.1f} ms")
        for kind, what in (("transfer", "transfer"), ("event", "event"))
        for rate in LONE_RATES
        if (row := rows.get(f"lone_{kind}_{rate}"))
    ]
    return (
        draw_bars("One alone: CPU of one beyond rest, in microseconds, and how long it takes", bars) if bars else None
    )


def _draw_standby(rows: Mapping[str, Row]) -> str | None:
    labels = {"charge": "charge", "transfer_64": "transfer and settling", "transfer_life": "transfer's life"}
    bars: list[Bar] = []
    for name, label in labels.items():
        if row := rows.get(f"standby_{name}"):
            without = row["without"]
            bars += [
                Bar(f"{label}, without", [("", without["per_second"])], f"{without['per_second']:,.0f}/s"),
                Bar(f"{label}, with a standby", [("", row["per_second"])], f"{row['per_second']:,.0f}/s"),
            ]
    return draw_bars("A synchronous standby beside it: how many a second", bars) if bars else None


def _draw_growth(rows: Mapping[str, Row]) -> str | None:
    found = sorted((row for name, row in rows.items() if name.startswith("growth_")), key=lambda row: row["transfers"])
    shown = {
        "life": lambda row: row["life"],
        "first page": lambda row: row["pages"]["first"],
        "page by cursor, half way": lambda row: row["pages"]["by_cursor"],
        "100th page by number": lambda row: row["pages"]["by_number"],
    }
    bars = [
        _cost_bar(f"{what}, {row['transfers']:,}", of(row), f"p50 {of(row)['p50_ms']:.1f} ms")
        for what, of in shown.items()
        for row in found
    ]
    return draw_bars("Growth: CPU of one, in microseconds, by how many transfers there are", bars) if bars else None


def _draw_overload(rows: Mapping[str, Row]) -> str | None:
    if "overload" not in rows:
        return None
    row = rows["overload"]
    named = {
        "can take": row["capacity_per_second"],
        "is asked for": row["offered_per_second"],
        "accepts": row["accepted"] / row["seconds"],
        "refuses": row["refused"] / row["seconds"],
        "settles and tells meanwhile": row["served_per_second"],
    }
    bars = [Bar(label, [("", value)], f"{value:,.0f}/s") for label, value in named.items()]
    return draw_bars("Four times what it can take: transfers a second", bars)


def _cost_bar(label: str, row: Row, said: str = "") -> Bar:
    cpu = row["cpu_us_each"]
    # What is measured beyond rest may come out a little below nothing.
    parts = [(kind, max(0.0, cpu.get(kind, 0.0))) for kind in _PROCESSES]
    in_all = f"{sum(value for _, value in parts):,.0f} µs"
    return Bar(label, parts, f"{in_all}; {said}" if said else in_all)


_CHARTS: dict[str, dict[str, Callable[[Mapping[str, Row]], str | None]]] = {
    "Requests accepted": {"cost.svg": _draw_cost, "ratios.svg": _draw_ratios, "batches.svg": _draw_batches},
    "One alone": {"lone.svg": _draw_lone},
    "Growth": {"growth.svg": _draw_growth},
    "More than it can take": {"overload.svg": _draw_overload},
    "With a synchronous standby": {"standby.svg": _draw_standby},
}
"""By the part of the page that they stand in."""


def write_charts() -> dict[str, str]:
    """The charts that there are rows for, by the names of their files."""
    rows = {row["name"]: row for row in _read_results()["rows"]}
    drawn = {name: draw(rows) for charts in _CHARTS.values() for name, draw in charts.items()}
    return {name: chart for name, chart in drawn.items() if chart is not None}


def write_page() -> str:
    """The page, of the rows that there are."""
    results = _read_results()
    rows: dict[str, Row] = {row["name"]: row for row in results["rows"]}
    charts = write_charts()
    machines = list(dict.fromkeys(row["machine"] for row in results["rows"] if "machine" in row))
    old = results["machine"]
    parts = [_HEAD.format(old_machine=f"only {old['cores']} cores, {old['machine']} and Python {old['python']}")]
    if machines:
        parts.append("".join(f"- {_MACHINES[number]}: {machine}\n" for number, machine in enumerate(machines)))
    for title, lines in _PARTS.items():
        measured = [line for line in lines if line.name in rows]
        if not measured:
            continue
        drawn = [
            f"![{_title_of(charts[name])}]({CHARTS_FOLDER}/{name})\n"
            for name in _CHARTS.get(title, {})
            if name in charts
        ]
        table = "".join(_line(line, rows[line.name], machines) for line in measured)
        parts += [f"## {title}\n", *drawn, f"| | | command | commit |\n|---|---|---|---|\n{table}"]
    return "\n".join(parts)


def write() -> None:
    """Write the page and its charts where they belong, and remove charts of which nothing is known any more."""
    (REFERENCE / "figures.md").write_text(write_page(), encoding="utf-8")
    folder = REFERENCE / CHARTS_FOLDER
    folder.mkdir(exist_ok=True)
    charts = write_charts()
    for path in folder.glob("*.svg"):
        if path.name not in charts:
            path.unlink()
    for name, chart in charts.items():
        (folder / name).write_text(chart, encoding="utf-8")


def _line(line: Line, row: Row, machines: Sequence[str]) -> str:
    command = row.get("command", BEGIN + line.measure).removeprefix(BEGIN)
    measured = row["commit"]
    if "machine" in row:
        measured += f", {_MACHINES[machines.index(row['machine'])]}, {row['on']}"
    return f"| {line.what} | {line.say(row)} | `{command}` | {measured} |\n"


def _title_of(chart: str) -> str:
    return chart.partition('<title id="title">')[2].partition("</title>")[0]


def _read_results() -> dict[str, Any]:
    return json.loads(RESULTS.read_text())
