"""What can be measured, by name, with its options at full length and as brief as ``make bench`` wants them."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from bench.figures import Row
from bench.measures import (
    accepting,
    disk,
    end_to_end,
    fairness,
    feed,
    growth,
    hostile,
    lone,
    other_requests,
    overload,
    proving,
    receiving,
    request_costs,
    restoring,
    soak,
    standby,
    start_and_rest,
    statement,
    webhook_isolation,
    webhook_speed,
    webhook_targets,
)


class Measure(NamedTuple):
    """What can be measured by its name."""

    start: Callable[[argparse.Namespace], Iterator[Row]]
    reads: Mapping[str, Any] = {}
    """The options that it knows, with what they are unless they are given."""
    quick: Mapping[str, Any] | None = None
    """What they are in ``make bench``, where it differs; without it the measure is no part of that."""


MEASURES: dict[str, Measure] = {
    "start": Measure(lambda _: start_and_rest.measure_start(), quick={}),
    "rest": Measure(lambda options: start_and_rest.measure_rest(options.seconds), dict(seconds=10.0), quick={}),
    "charge": Measure(
        lambda options: accepting.measure_charges(options.seconds, options.rounds),
        dict(seconds=10.0, rounds=3),
        quick=dict(seconds=4.0, rounds=2),
    ),
    "transfer_hot": Measure(
        lambda options: accepting.measure_hot_transfers(options.seconds, options.rounds, options.connections),
        dict(seconds=10.0, rounds=3, connections=(16, 64, 256)),
        quick=dict(seconds=4.0, rounds=2, connections=(64,)),
    ),
    "transfer_key": Measure(
        lambda options: accepting.measure_key_transfers(options.seconds, options.rounds),
        dict(seconds=10.0, rounds=3),
        quick=dict(seconds=4.0, rounds=2),
    ),
    "transfer_spread": Measure(
        lambda options: accepting.measure_spread_transfers(options.seconds, options.rounds, options.holders),
        dict(seconds=10.0, rounds=3, holders=1000),
    ),
    "token": Measure(
        lambda options: other_requests.measure_tokens(options.seconds, options.rounds),
        dict(seconds=10.0, rounds=3),
        quick=dict(seconds=4.0, rounds=2),
    ),
    "picture": Measure(
        lambda options: other_requests.measure_pictures(options.seconds, options.rounds),
        dict(seconds=10.0, rounds=3),
        quick=dict(seconds=4.0, rounds=1),
    ),
    "charge_life": Measure(
        lambda options: end_to_end.measure_one_after_the_other(
            "charge_life", end_to_end.pay_charge, end_to_end.CHARGE_TOLD, options.seconds, options.in_flight
        ),
        dict(seconds=60.0, in_flight=16),
    ),
    "charge_paid": Measure(
        lambda options: end_to_end.measure_one_after_the_other(
            "charge_paid",
            end_to_end.pay_charge_told_twice,
            end_to_end.CHARGE_TOLD_TWICE,
            options.seconds,
            options.in_flight,
        ),
        dict(seconds=60.0, in_flight=64),
        quick=dict(seconds=8.0),
    ),
    "transfer_life": Measure(
        lambda options: end_to_end.measure_one_after_the_other(
            "transfer_life", end_to_end.settle_transfer, end_to_end.TRANSFER_TOLD, options.seconds, options.in_flight
        ),
        dict(seconds=60.0, in_flight=512),
        quick=dict(seconds=10.0),
    ),
    "confirmed": Measure(
        lambda options: end_to_end.measure_confirmed(options.seconds), dict(seconds=60.0), quick=dict(seconds=10.0)
    ),
    "lone_transfer": Measure(
        lambda options: lone.measure_lone_transfers(options.seconds, options.rates),
        dict(seconds=30.0, rates=(1, 20, 100)),
        quick=dict(seconds=8.0, rates=(20,)),
    ),
    "lone_event": Measure(
        lambda options: lone.measure_lone_events(options.seconds, options.rates),
        dict(seconds=30.0, rates=(1, 20, 100)),
        quick=dict(seconds=8.0, rates=(20,)),
    ),
    "first_octet": Measure(
        lambda options: webhook_speed.measure_first_octet(options.seconds), dict(seconds=60.0), quick=dict(seconds=8.0)
    ),
    "feed": Measure(
        lambda options: feed.measure_feed(options.seconds, options.events),
        dict(seconds=10.0, events=10_000_000),
    ),
    "overload": Measure(
        lambda options: overload.measure_overload(options.seconds), dict(seconds=10.0), quick=dict(seconds=8.0)
    ),
    "growth": Measure(
        lambda options: growth.measure_growth(options.seconds, options.transfers),
        dict(seconds=10.0, transfers=(10_000, 1_000_000, 10_000_000)),
    ),
    "disk": Measure(
        lambda options: disk.measure_disk(options.seconds, options.kinds or tuple(disk.STORIES)),
        dict(seconds=30.0, kinds=()),
    ),
    "soak": Measure(lambda options: soak.measure_soak(options.seconds), dict(seconds=3600.0)),
    "standby": Measure(
        lambda options: standby.measure_standby(options.seconds, options.rounds, options.in_flight),
        dict(seconds=10.0, rounds=3, in_flight=512),
    ),
    "restore": Measure(lambda options: restoring.measure_restore(options.gib), dict(gib=1)),
    "verify": Measure(
        lambda options: proving.measure_verify(options.seconds, options.entries, options.holders),
        dict(seconds=60.0, entries=(1_000_000, 10_000_000), holders=1000),
    ),
    "deliveries": Measure(lambda options: webhook_speed.measure_deliveries(options.seconds), dict(seconds=30.0)),
    "targets": Measure(lambda _: webhook_targets.measure_targets(), quick={}),
    "isolation": Measure(
        lambda options: webhook_isolation.measure_isolation(options.seconds, options.rounds),
        dict(seconds=40.0, rounds=3),
    ),
    "fairness": Measure(
        lambda options: fairness.measure_fairness(options.seconds, options.rounds, options.kinds),
        dict(seconds=10.0, rounds=3, kinds=()),
    ),
    "hostile": Measure(
        lambda options: hostile.measure_hostile(options.seconds, options.kinds), dict(seconds=60.0, kinds=())
    ),
    "request_costs": Measure(
        lambda options: request_costs.measure_request_costs(options.requests, options.rounds),
        dict(requests=200, rounds=5),
        quick=dict(requests=50, rounds=1),
    ),
    "receive": Measure(
        lambda options: receiving.measure_receiving(options.pix, options.seconds, options.kinds),
        dict(pix=100_000, seconds=10.0, kinds=()),
    ),
    "statement": Measure(lambda options: statement.measure_statements(options.lines), dict(lines=1_000_000)),
}

MEANINGS = {
    "seconds": "of each measurement",
    "rounds": "of what is compared, in turn",
    "connections": "a row for each number of them",
    "holders": "who ask in turn, or whose books are proved",
    "in_flight": "lives at once",
    "requests": "of each kind in each round",
    "rates": "a second: a row for each",
    "events": "written meanwhile, or there before",
    "kinds": "only these, such as transfers",
    "pix": "that came in within a day",
    "lines": "of the statement",
    "entries": "of the ledger: a row for each number of them",
    "transfers": "that there are: a row for each",
    "gib": "of the database",
}
"""What the options are, of all measures."""


def options_of(name: str, given: Mapping[str, Any], *, is_quick: bool) -> dict[str, Any]:
    """What a measure is asked to be: as given, or as brief as ``make bench`` wants it, or at its full length."""
    measure = MEASURES[name]
    options = {**measure.reads, **((measure.quick or {}) if is_quick else {})}
    return {option: value if given.get(option) is None else given[option] for option, value in options.items()}


def command_of(name: str, options: Mapping[str, Any]) -> str:
    """The command that measures the same again."""
    words = ["bench/run.py", "--only", name]
    for option, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        if values:
            words += [
                f"--{option.replace('_', '-')}",
                *(f"{each:g}" if isinstance(each, float) else str(each) for each in values),
            ]
    return " ".join(words)
