"""``docs/reference/figures.md``, from what ``bench/run.py`` kept."""

import json
from collections.abc import Callable
from typing import NamedTuple

from bench.figures import RESULTS, Row
from support.greedy_holder import worst_of

_HEAD = """\
# Figures

What `bench/run.py` measured, and the name to measure it by: `.venv/bin/python bench/run.py --only NAME`. Durable settings, the
defaults of `make run`, everything on the same {cores} shared cores: the service, its PostgreSQL, the simulated network, the
receivers and whoever makes the load. Such machines change from minute to minute, so that a ratio within one run says more than
a rate. All rows with all their fields are in `bench/results.json`, each with the commit that was measured.

`pgbench` is `pgbench -N -M prepared -c 16` on the service's own PostgreSQL, in turn with each round.
"""


class Line(NamedTuple):
    """What is said of one row of the results."""

    measure: str
    name: str
    what: str
    say: Callable[[Row], str]


def _accepted(row: Row) -> str:
    cpu = ", ".join(f"{kind} {us:.0f}" for kind, us in row["cpu_us_each"].items() if us >= 1)
    return (
        f"{row['per_second']:,.0f}/s, {row['ratio']:.2f} x pgbench; p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms; "
        f"CPU each {cpu} µs"
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
        Line(
            "charge_one_a_group", "create_charge_one_a_group", "the same, each in a transaction of its own", _accepted
        ),
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
            "transfer_spread",
            "transfer_spread",
            "the same over 1 000 holders, each with its own client, 256 connections",
            _accepted,
        ),
    ],
    "Whole lives": [
        Line("charge_life", "charge_life", "charge created, paid, both webhooks received", _life),
        Line(
            "transfer_life", "transfer_life", "transfer accepted, handed over, settled, both webhooks received", _life
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


def write_page() -> str:
    """The page, of the rows that there are."""
    results = json.loads(RESULTS.read_text())
    rows: dict[str, Row] = {row["name"]: row for row in results["rows"]}
    parts = [_HEAD.format(cores=results["machine"]["cores"])]
    for title, lines in _PARTS.items():
        measured = [line for line in lines if line.name in rows]
        parts.append(f"## {title}\n\n| | | NAME |\n|---|---|---|\n")
        parts[-1] += "".join(f"| {line.what} | {line.say(rows[line.name])} | `{line.measure}` |\n" for line in measured)
    return "\n".join(parts)
