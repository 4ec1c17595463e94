"""The lines of the page of figures: the text of each row of results, in order."""

from collections.abc import Callable
from typing import NamedTuple

from bench.figures import Row
from bench.pages import phrases
from support.greedy_holder import worst_of

LONE_RATES = (1, 20, 100)


class Line(NamedTuple):
    """The text of a row of the results."""

    measure: str
    name: str
    what: str
    say: Callable[[Row], str]


PARTS: dict[str, list[Line]] = {
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
        Line("charge", "create_charge", "charges of one account, 64 connections", phrases.say_accepted),
        Line("charge", "put_cob", "the same by `PUT /cob` of the central bank's API", phrases.say_accepted),
        Line("charge", "put_cobv", "charges with a due date by `PUT /cobv`", phrases.say_due),
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
            phrases.say_accepted,
        ),
        Line(
            "transfer_hot",
            "transfer_16",
            "transfers of one account while the worker settles them, 16 connections",
            phrases.say_accepted,
        ),
        Line("transfer_hot", "transfer_64", "the same, 64 connections", phrases.say_accepted),
        Line("transfer_hot", "transfer_256", "the same, 256 connections", phrases.say_accepted),
        Line(
            "transfer_key",
            "transfer_key_64",
            "transfers of one account by key, 64 connections: the network is asked before one is accepted",
            phrases.say_accepted,
        ),
        Line(
            "transfer_spread",
            "transfer_spread",
            "the same over 1 000 holders, each with its own client, 256 connections",
            phrases.say_accepted,
        ),
        Line("token", "token", "access tokens, 16 connections", phrases.say_asked),
        Line(
            "picture",
            "picture",
            "charges with a picture of their code, 16 connections",
            lambda row: f"{phrases.say_asked(row)}; the picture is {row['picture_cpu_us_each']:,.0f} µs of it",
        ),
    ],
    "Whole lives": [
        Line("charge_paid", "charge_paid", "charge created, paid, the webhooks of both received", phrases.say_life),
        Line(
            "transfer_life",
            "transfer_life",
            "transfer accepted, handed over, settled, both webhooks received",
            phrases.say_life,
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
    "Received at institutions": [
        *(
            Line("receive", f"receive_{kind}", f"a day of Pix, read from the face of {kind}", phrases.say_received)
            for kind in ("efi", "inter", "sicoob", "woovi")
        ),
        Line(
            "receive",
            "receive_sandbox",
            "payments over the sandbox's own rail, the network included",
            phrases.say_asked,
        ),
    ],
    "One alone": [
        *(
            Line(
                "lone_transfer",
                f"lone_transfer_{rate}",
                f"transfers at {rate} a second, from the request to CONFIRMED at the receiver",
                phrases.say_lone_transfer,
            )
            for rate in LONE_RATES
        ),
        *(
            Line(
                "lone_event",
                f"lone_event_{rate}",
                f"events at {rate} a second, from the commit to the receiver",
                phrases.say_lone,
            )
            for rate in LONE_RATES
        ),
    ],
    "More than it can take": [
        Line(
            "overload",
            "overload",
            "four times as many transfers as it can settle and tell; one core for who asks and is told, the rest for us",
            phrases.say_overload,
        )
    ],
    "On disk": [
        Line("disk", f"disk_{name}", what, phrases.say_disk)
        for name, what in {
            "transfer_life": "a transfer sent and settled",
            "charge_paid": "a charge made and paid",
        }.items()
    ],
    "From a copy and the log": [
        Line(
            "restore",
            f"restore_{gib}",
            f"a database of {gib} GiB, of which a quarter was written since",
            phrases.say_restore,
        )
        for gib in (1, 10)
    ],
    "The books proved": [
        Line("verify", f"verify_{count}", f"beside {count:,} entries, chained", phrases.say_verified)
        for count in (1_000_000, 10_000_000)
    ],
    "Growth": [
        Line("growth", f"growth_{count}", f"beside {count:,} transfers of the same holder", phrases.say_growth)
        for count in (10_000, 1_000_000, 10_000_000)
    ],
    "For long": [Line("soak", "soak", "transfers' lives at an even pace, both webhooks received", phrases.say_soak)],
    "Webhooks": [
        Line("deliveries", "deliveries_1_plain", "one receiver, http", phrases.say_delivered),
        Line("deliveries", "deliveries_1_tls", "one receiver, https", phrases.say_delivered),
        Line("deliveries", "deliveries_200_plain", "200 receivers, http", phrases.say_delivered),
        Line("deliveries", "deliveries_200_tls", "200 receivers, https", phrases.say_delivered),
        Line(
            "first_octet",
            "first_octet",
            "from the commit to the first octet at the receiver, 500 events a second",
            lambda row: f"p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms",
        ),
    ],
    "Fairness": [
        *(
            Line(
                "fairness",
                f"fairness_{kind.replace(' ', '_')}",
                f"p99 of nine calm holders beside a tenth's {kind}",
                phrases.say_fairness,
            )
            for kind in worst_of("", 0)
        )
    ],
    "A statement of a million lines": [
        Line("statement", f"statement_{name}", title, phrases.say_statement)
        for name, title in {"json": "JSON", "csv": "CSV", "ofx": "OFX", "camt053": "camt.053"}.items()
    ],
}
