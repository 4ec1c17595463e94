"""Measures what the service does on this machine; a table, and ``bench/results.json``.

    make bench                                           everything that takes a minute or two
    .venv/bin/python bench/run.py --only NAME            one measure, or several
    .venv/bin/python bench/run.py --only NAME --seconds 5 --rounds 1 --show-only    a try

Durable settings, the service's own defaults, loopback only. Every measure starts a service of its own and stops it afterwards;
load comes from other processes, whose CPU is reported. What is counted stands at the head of the file that a measure is in.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])  # where this package is: Python put this file's own folder there

from bench.figures import RESULTS, Row, keep, show
from bench.measures import (
    accepting,
    edge,
    end_to_end,
    fairness,
    start_and_rest,
    statement,
    webhook_claim,
    webhook_isolation,
    webhook_kills,
    webhook_speed,
    webhook_targets,
)

CHARGES_IN_FLIGHT = 16
Measure = Callable[[argparse.Namespace], Iterator[Row]]

SHORT: dict[str, Measure] = {
    "start": lambda _: start_and_rest.measure_start(),
    "rest": lambda options: start_and_rest.measure_rest(options.seconds or 10),
    "charge": lambda options: accepting.measure_charges(options.seconds or 10, options.rounds),
    "charge_one_a_group": lambda options: accepting.measure_charges_one_a_group(options.seconds or 10, options.rounds),
    "transfer_hot": lambda options: accepting.measure_hot_transfers(options.seconds or 10, options.rounds),
    "transfer_spread": lambda options: accepting.measure_spread_transfers(
        options.seconds or 10, options.rounds, options.holders
    ),
    "charge_life": lambda options: end_to_end.measure_one_after_the_other(
        "charge_life", end_to_end.pay_charge, options.seconds or 60, CHARGES_IN_FLIGHT
    ),
    "transfer_life": lambda options: end_to_end.measure_one_after_the_other(
        "transfer_life", end_to_end.settle_transfer, options.seconds or 60, options.in_flight
    ),
    "confirmed": lambda options: end_to_end.measure_confirmed(options.seconds or 60),
    "first_octet": lambda options: webhook_speed.measure_first_octet(options.seconds or 60),
    "edge": lambda options: edge.measure_edge(options.seconds or 5, options.rounds),
    "targets": lambda _: webhook_targets.measure_targets(),
}
LONG: dict[str, Measure] = {
    "deliveries": lambda options: webhook_speed.measure_deliveries(options.seconds or 60),
    "isolation": lambda options: webhook_isolation.measure_isolation(options.seconds or 40, options.rounds),
    "fairness": lambda options: fairness.measure_fairness(options.seconds or 10, options.rounds, options.kinds),
    "hot_share": lambda options: fairness.measure_hot_share(options.seconds or 10, options.rounds),
    "kills": lambda options: webhook_kills.measure_kills(options.kills, options.events),
    "statement": lambda options: statement.measure_statements(options.lines),
    "claim": lambda options: webhook_claim.measure_claims(
        options.seconds or 60, options.delivered_rows, options.pinned_minutes
    ),
}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=f"Measures: {', '.join(SHORT)}; and longer ones: {', '.join(LONG)}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", nargs="+", choices=[*SHORT, *LONG], metavar="NAME", help="measures, in this order")
    parser.add_argument("--all", action="store_true", help="the longer ones too")
    parser.add_argument("--show-only", action="store_true", help=f"leave {RESULTS.name} as it is")
    parser.add_argument("--seconds", type=float, help="of each measurement, where it has a length")
    parser.add_argument("--rounds", type=int, default=3, help="of what is compared, in turn")
    parser.add_argument("--holders", type=int, default=1000, help="of transfer_spread")
    parser.add_argument("--in-flight", type=int, default=512, help="of transfer_life: lives at once")
    parser.add_argument("--kills", type=int, default=20, help="of kills")
    parser.add_argument("--events", type=int, default=10_000, help="of kills")
    parser.add_argument(
        "--kinds", nargs="+", default=(), metavar="KIND", help="of fairness, such as transfers: only these"
    )
    parser.add_argument("--lines", type=int, default=1_000_000, help="of statement")
    parser.add_argument("--delivered-rows", type=int, default=10_000_000, help="of claim")
    parser.add_argument("--pinned-minutes", type=float, default=10, help="of claim")
    options = parser.parse_args()
    measures = SHORT | LONG
    for name in options.only or (measures if options.all else SHORT):
        for row in measures[name](options):
            show(row)
            if not options.show_only:
                keep(row)


if __name__ == "__main__":
    main()
