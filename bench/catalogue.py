"""The measures by name, with their options at full length and in the short form of ``make bench``."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from bench.figures import Row
from bench.measures import (
    accepting,
    disk,
    end_to_end,
    fairness,
    growth,
    hostile,
    lone,
    overload,
    proving,
    receiving,
    request_costs,
    restoring,
    soak,
    start_and_rest,
    statement,
    tokens,
    webhook_speed,
)


class Measure(NamedTuple):
    """A measure."""

    start: Callable[..., Iterator[Row]]
    reads: Mapping[str, Any] = {}
    """Its options with their defaults."""
    quick: Mapping[str, Any] | None = None
    """The options that differ in ``make bench``; None if the measure is no part of it."""


MEASURES: dict[str, Measure] = {
    "start": Measure(start_and_rest.measure_start, quick={}),
    "rest": Measure(start_and_rest.measure_rest, dict(seconds=10.0), quick={}),
    "charge": Measure(accepting.measure_charges, dict(seconds=10.0, rounds=3), quick=dict(seconds=4.0, rounds=2)),
    "transfer_hot": Measure(
        accepting.measure_hot_transfers,
        dict(seconds=10.0, rounds=3, connections=(16, 64, 256)),
        quick=dict(seconds=4.0, rounds=2, connections=(64,)),
    ),
    "transfer_key": Measure(accepting.measure_key_transfers, dict(seconds=10.0, rounds=3), quick=dict(seconds=4.0, rounds=2)),
    "transfer_spread": Measure(accepting.measure_spread_transfers, dict(seconds=10.0, rounds=3, holders=1000)),
    "token": Measure(tokens.measure_tokens, dict(seconds=10.0, rounds=3), quick=dict(seconds=4.0, rounds=2)),
    "charge_paid": Measure(end_to_end.measure_paid_charges, dict(seconds=60.0, in_flight=64), quick=dict(seconds=8.0)),
    "transfer_life": Measure(end_to_end.measure_transfer_lives, dict(seconds=60.0, in_flight=512), quick=dict(seconds=10.0)),
    "lone_transfer": Measure(
        lone.measure_lone_transfers, dict(seconds=30.0, rates=(1, 20, 100)), quick=dict(seconds=8.0, rates=(20,))
    ),
    "lone_event": Measure(
        lone.measure_lone_events, dict(seconds=30.0, rates=(1, 20, 100)), quick=dict(seconds=8.0, rates=(20,))
    ),
    "overload": Measure(overload.measure_overload, dict(seconds=10.0), quick=dict(seconds=8.0)),
    "growth": Measure(growth.measure_growth, dict(seconds=10.0, transfers=(10_000, 1_000_000, 10_000_000))),
    "disk": Measure(disk.measure_disk, dict(seconds=30.0, kinds=())),
    "soak": Measure(soak.measure_soak, dict(seconds=3600.0)),
    "restore": Measure(restoring.measure_restore, dict(gib=1)),
    "verify": Measure(proving.measure_verify, dict(seconds=60.0, entries=(1_000_000, 10_000_000), holders=1000)),
    "deliveries": Measure(webhook_speed.measure_deliveries, dict(seconds=30.0)),
    "fairness": Measure(fairness.measure_fairness, dict(seconds=10.0, rounds=3, kinds=())),
    "hostile": Measure(hostile.measure_hostile, dict(seconds=60.0, kinds=())),
    "request_costs": Measure(
        request_costs.measure_request_costs, dict(requests=200, rounds=5), quick=dict(requests=50, rounds=1)
    ),
    "receive": Measure(receiving.measure_receiving, dict(pix=100_000, seconds=10.0, kinds=())),
    "statement": Measure(statement.measure_statements, dict(lines=1_000_000)),
}

MEANINGS = {
    "seconds": "of each measurement",
    "rounds": "of what is compared, in turn",
    "connections": "a row for each number of them",
    "holders": "who ask in turn, or whose books are proved",
    "in_flight": "lives at once",
    "requests": "of each kind in each round",
    "rates": "a second: a row for each",
    "kinds": "only these, such as transfers",
    "pix": "that came in within a day",
    "lines": "of the statement",
    "entries": "of the ledger: a row for each number of them",
    "transfers": "that there are: a row for each",
    "gib": "of the database",
}
"""The meaning of the options, in all measures."""


def options_of(name: str, given: Mapping[str, Any], *, is_quick: bool) -> dict[str, Any]:
    """The options of a measure: as given, otherwise in the short form or at full length."""
    measure = MEASURES[name]
    options = {**measure.reads, **((measure.quick or {}) if is_quick else {})}
    return {option: value if given.get(option) is None else given[option] for option, value in options.items()}


def command_of(name: str, options: Mapping[str, Any]) -> str:
    words = ["bench/run.py", "--only", name]
    for option, value in options.items():
        values = value if isinstance(value, list | tuple) else [value]
        if values:
            words += [
                f"--{option.replace('_', '-')}",
                *(f"{each:g}" if isinstance(each, float) else str(each) for each in values),
            ]
    return " ".join(words)
