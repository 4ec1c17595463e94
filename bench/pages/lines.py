"""What the page of figures says of each row of results, in which order."""

from collections.abc import Callable
from typing import NamedTuple

from bench.figures import Row
from support.greedy_holder import worst_of

LONE_RATES = (1, 20, 100)


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
        f"{row['refused_p50_ms']:,.0f} ms, p99 {row['refused_p99_ms']:,.0f} ms, from when each was due, with which who asks "
        f"was itself at most {row['sent_late_ms']:,.0f} ms late; otherwise failed {row['failed']:,}. Ten seconds later "
        f"{row['left']['orders']:,} orders and {row['left']['deliveries']:,} webhooks were left; calm requests "
        f"p99 {row['calm_before_p99_ms']:.0f} ms before, {row['calm_after_p99_ms']:.0f} ms after"
    )


def _standby(row: Row) -> str:
    without = row["without"]
    return (
        f"{row['per_second']:,.0f}/s, {row['rate_kept']:.2f} of what it is without ({without['per_second']:,.0f}/s, medians of "
        f"{row['rounds']} pairs); p50 {row['p50_ms']:.1f} ms, without {without['p50_ms']:.1f} ms; p99 {row['p99_ms']:.0f} ms, "
        f"without {without['p99_ms']:.0f} ms; CPU each {row['cpu_us_each_in_all']:,.0f} µs, without "
        f"{without['cpu_us_each_in_all']:,.0f} µs, and {row['standby_cpu_us_each']:,.0f} µs of the standby itself"
    )


def _restore(row: Row) -> str:
    return (
        f"copied in {row['copy_s']:.0f} s beside the service; back in {row['put_back_s'] + row['replay_s']:.0f} s: the folder "
        f"{row['put_back_s']:.0f} s, {row['log_mib']:,.0f} MiB of log {row['replay_s']:.0f} s; the log's keeper was at most "
        f"{row['behind_ms']:,.0f} ms behind"
    )


def _verified(row: Row) -> str:
    return f"everything in {_proved(row['whole'])}; then {row['day_transfers']:,} transfers of a day in {_proved(row['day'])}"


def _proved(run: Row) -> str:
    return (
        f"{run['seconds']:,.0f} s beside a load of {run['load']:.0f}: {run['cpu_s']['postgres']:,.0f} s of the database's CPU, "
        f"{run['cpu_s']['verify']:,.0f} s of its own, {run['peak_mib']:,.0f} MiB and {run['server_mib']:,.0f} of the server"
    )


def _chained(row: Row) -> str:
    return (
        f"{row['ratio']:.3f} of the CPU without a chain ({row['low']:.3f} to {row['high']:.3f}, {row['rounds']} pairs, beside "
        f"{row['load']:.0f} processes); to chain an entry takes {row['chained_us']:.0f} µs of it"
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
        f"{row['life']['p99_ms']:.0f} ms; a page of 100 transfers: {said}; transfers and their entries "
        f"take {sum(row['tables_mb'].values()):,.0f} MB, filled in {row['filled_s']:,.0f} s"
    )


def _soak(row: Row) -> str:
    memory = [sum(values) for values in zip(*row["memory_mib"].values(), strict=True)]
    shared = row["memory_mib"]["postgres_cache"]
    rested = f", {memory[-1]:,.0f} at the end of the rest" if row["is_whole"] else ""
    held = ", which the disk could not hold longer" if row["is_held_by_disk"] else ""
    # The last sample under load; what follows is rest.
    last = max(number for number, at_s in enumerate(row["at_s"]) if at_s <= row["lasted_s"] + 1)
    said = (
        f"{row['per_second']:,.0f}/s, {row['per_second'] / row['capacity_per_second']:.0%} of the "
        f"{row['capacity_per_second']:,.0f}/s that it could take before{held}; for {row['lasted_s'] / 60:.3g} min, "
        f"{row['lives']:,} lives, {row['failed']:,} requests failed; p99 of an answer at most "
        f"{max(row['answered_ms']['p99']):,.0f} ms between two samples; lag at most {max(map(max, row['lag_s'].values())):.1f} "
        f"s; memory from {memory[0]:,.0f} to {memory[last]:,.0f} MiB{rested}; of it PostgreSQL's shared memory "
        f"{shared[0]:,.0f} to {shared[-1]:,.0f}, in which its cache is at most {row['shared_buffers_mib']:,}; "
        f"{row['wal_mb']['written'][last] / max(1, row['lives']) * 1000:,.1f} kB of WAL a life; at most "
        f"{max(row['dead_rows']['open_order']):,.0f} dead rows of open orders and "
        f"{max(row['dead_rows']['delivery']):,.0f} of deliveries"
    )
    if not row["is_whole"]:
        return f"{said}. Ended early"
    runs = ", ".join(f"{name} {count}" for name, count in row["vacuum_runs"].items())
    settings = ", ".join(f"`{name} = {value}`" for name, value in row["vacuum"].items())
    return f"{said}. Vacuum ran: {runs}; with {settings}"


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


def _feed(row: Row) -> str:
    return (
        f"after p50 {row['p50_ms']:.0f} ms, p99 {row['p99_ms']:.0f} ms; a page of 100 p50 {row['page_p50_ms']:.1f} ms, "
        f"p99 {row['page_p99_ms']:.1f} ms"
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


def _received(row: Row) -> str:
    names = {"new": "credited", "known": "listed again", "line_new": "line joined", "line_known": "line listed again"}
    said = ", ".join(
        f"{what} {row[name]['cpu_us_each_in_all']:,.0f} µs ({row[name]['per_second']:,.0f}/s)"
        for name, what in names.items()
        if name in row
    )
    return f"CPU each: {said}; 100,000 a day take {row['core_part']:.1%} of a core"


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
        Line("charge", "create_charge", "charges of one account, 64 connections", _accepted),
        Line("charge", "put_cob", "the same by `PUT /cob` of the central bank's API", _accepted),
        Line("one_a_group", "create_charge_one_a_group", "charges, each in a transaction of its own", _accepted),
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
    "Received at institutions": [
        *(
            Line("receive", f"receive_{kind}", f"a day of Pix, read from the face of {kind}", _received)
            for kind in ("efi", "inter", "sicoob", "woovi")
        ),
        Line("receive", "receive_sandbox", "payments over the sandbox's own rail, the network included", _asked),
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
            "four times as many transfers as it can settle and tell; one core for who asks and is told, the rest for us",
            _overload,
        ),
    ],
    "With a synchronous standby": [
        Line("standby", f"standby_{name}{suffix}", f"{what}{how}", _standby)
        for name, what in {
            "charge": "charges of one account, 64 connections",
            "transfer_64": "transfers and settling, 64 connections",
            "transfer_life": "transfer's life, both webhooks received",
        }.items()
        for suffix, how in {"": "", "_one_a_group": "; each step in a transaction of its own"}.items()
    ],
    "From a copy and the log": [
        Line("restore", f"restore_{gib}", f"a database of {gib} GiB, of which a quarter was written since", _restore)
        for gib in (1, 10)
    ],
    "The books proved": [
        Line("verify", f"verify_{count}", f"beside {count:,} entries, chained", _verified)
        for count in (1_000_000, 10_000_000)
    ]
    + [
        Line("chain", f"chain_{name}", f"{what}, their entries chained", _chained)
        for name, what in {
            "transfer_accepted": "transfers of one account accepted",
            "transfer_settled": "transfers of one account accepted and settled",
            "charge_paid": "charges paid, both webhooks received",
            "transfer_life": "transfers' lives, both webhooks received",
        }.items()
    ],
    "Growth": [
        Line("growth", f"growth_{count}", f"beside {count:,} transfers of the same holder", _growth)
        for count in (10_000, 1_000_000, 10_000_000)
    ],
    "For long": [
        Line("soak", "soak", "transfers' lives at an even pace, both webhooks received", _soak),
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
        Line("feed", "feed_few", "an event can be read by who waits for it, at 500 a second", _feed),
        Line("feed", "feed_many", "the same, behind 10 million events", _feed),
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
