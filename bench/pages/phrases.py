"""Phrases of the page of figures, for rows with many fields."""

from typing import Final

from bench.figures import Row

_LEAVING: Final = frozenset({"event", "delivery", "delivery_attempt", "event_feed"})
"""These tables lose whole partitions, ``PIXCONNECT_EVENT_RETENTION_DAYS`` after they were written."""


def say_accepted(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s, {row['ratio']:.2f} x pgbench; p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms; "
        f"CPU each {say_cpu(row)} µs"
    )


def say_cpu(row: Row) -> str:
    return ", ".join(f"{kind} {us:,.0f}" for kind, us in row["cpu_us_each"].items() if us >= 1)


def say_asked(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s; p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.0f} ms; CPU each {say_cpu(row)} µs, "
        f"{row['cpu_us_each_in_all']:,.0f} in all"
    )


def say_lone(row: Row) -> str:
    return (
        f"p50 {row['p50_ms']:.1f} ms, p99 {row['p99_ms']:.1f} ms; CPU each, beyond what the service uses at rest, "
        f"{row['cpu_us_each_in_all'] / 1000:.1f} ms ({say_cpu(row)} µs)"
    )


def say_lone_transfer(row: Row) -> str:
    return f"{say_lone(row)}; answered after p50 {row['accepted_p50_ms']:.1f} ms; the simulated network takes 50 ms"


def say_disk(row: Row) -> str:
    kept = sum(octets for table, octets in row["octets_each"].items() if table not in _LEAVING)
    in_all = sum(row["octets_each"].values())
    return (
        f"{in_all / 1000:.2f} kB with indexes, of which {kept / 1000:.2f} kB are kept longer than events; "
        f"{row['wal_octets_each'] / 1000:.1f} kB of WAL"
    )


def say_overload(row: Row) -> str:
    return (
        f"can take {row['capacity_per_second']:,.0f} lives/s, is asked for {row['offered_per_second']:,.0f}/s: "
        f"{row['served_part']:.0%} of what it can take is served; accepted {row['accepted']:,} after p50 "
        f"{row['accepted_p50_ms']:,.0f} ms, p99 {row['accepted_p99_ms']:,.0f} ms; refused {row['refused']:,} after p50 "
        f"{row['refused_p50_ms']:,.0f} ms, p99 {row['refused_p99_ms']:,.0f} ms, from when each was due, with which who asks "
        f"was itself at most {row['sent_late_ms']:,.0f} ms late; otherwise failed {row['failed']:,}. Ten seconds later "
        f"{row['left']['orders']:,} orders and {row['left']['deliveries']:,} webhooks were left; calm requests "
        f"p99 {row['calm_before_p99_ms']:.0f} ms before, {row['calm_after_p99_ms']:.0f} ms after"
    )


def say_restore(row: Row) -> str:
    return (
        f"copied in {row['copy_s']:.0f} s beside the service; back in {row['put_back_s'] + row['replay_s']:.0f} s: the folder "
        f"{row['put_back_s']:.0f} s, {row['log_mib']:,.0f} MiB of log {row['replay_s']:.0f} s; the log's keeper was at most "
        f"{row['behind_ms']:,.0f} ms behind"
    )


def say_verified(row: Row) -> str:
    whole, day = say_proved(row["whole"]), say_proved(row["day"])
    return f"everything in {whole}; then {row['day_transfers']:,} transfers of a day in {day}"


def say_proved(run: Row) -> str:
    return (
        f"{run['seconds']:,.0f} s beside a load of {run['load']:.0f}: {run['cpu_s']['postgres']:,.0f} s of the database's CPU, "
        f"{run['cpu_s']['verify']:,.0f} s of its own, {run['peak_mib']:,.0f} MiB and {run['server_mib']:,.0f} of the server"
    )


def say_growth(row: Row) -> str:
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


def say_soak(row: Row) -> str:
    memory = [sum(values) for values in zip(*row["memory_mib"].values(), strict=True)]
    shared = row["memory_mib"]["postgres_cache"]
    rested = f", {memory[-1]:,.0f} at the end of the rest" if row["is_whole"] else ""
    held = ", which the disk could not hold longer" if row["is_held_by_disk"] else ""
    # The last sample under load; the later ones are at rest.
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


def say_life(row: Row) -> str:
    return (
        f"{row['per_second']:,.0f}/s for {row['seconds']:.0f} s with {row['in_flight']} at once; p50 {row['p50_ms']:.0f} ms, "
        f"p99 {row['p99_ms']:.0f} ms; CPU each {row['cpu_us_each_in_all']:,.0f} µs in all; open at the end of each 5 s: orders "
        f"{min(row['orders_open'])} to {max(row['orders_open'])}, deliveries {min(row['deliveries_due'])} to "
        f"{max(row['deliveries_due'])}"
    )


def say_delivered(row: Row) -> str:
    cpu = row["cpu_us_each"]
    return f"{row['per_second']:,.0f}/s; CPU each: worker {cpu['worker']:.0f} µs, PostgreSQL {cpu['postgres']:.0f} µs"


def say_statement(row: Row) -> str:
    return (
        f"{row['seconds']:.0f} s, {row['cpu_seconds']:.0f} s of CPU, {row['megabytes']:,.0f} MB; API process at most "
        f"{row['peak_mib']:.0f} MiB"
    )


def say_fairness(row: Row) -> str:
    return (
        f"{row['p99_ms_alone']:.0f} ms alone, {row['p99_ms_beside']:.0f} ms beside it: {'' if row['is_fair'] else 'not '}fair; "
        f"{row['p99_ms_beside_asking_elsewhere']:.0f} ms while it asks elsewhere; the nine themselves woken "
        f"{row['p99_ms_woken_late']:.0f} ms late"
    )


def say_due(row: Row) -> str:
    return f"{say_accepted(row)}, {row['cpu_of_cob']:.2f} of a `cob`'s"


def say_received(row: Row) -> str:
    names = {"new": "credited", "known": "listed again", "line_new": "line joined", "line_known": "line listed again"}
    said = ", ".join(
        f"{what} {row[name]['cpu_us_each_in_all']:,.0f} µs ({row[name]['per_second']:,.0f}/s)"
        for name, what in names.items()
        if name in row
    )
    return f"CPU each: {said}; 100,000 a day take {row['core_part']:.1%} of a core"
