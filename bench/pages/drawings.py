"""What the charts on the page of figures show, of the rows that there are."""

from collections.abc import Callable, Mapping, Sequence

from bench.figures import Row
from bench.pages.charts import COLOURS, Bar, Panel, Series, draw_bars, draw_lines, short

_Lines = Mapping[str, Sequence[float]]

_PROCESSES = ("api", "worker", "postgres", "sandbox")
_CHANGING = ("open_order", "delivery", "transfer", "settlement")
"""Tables whose rows change or go; in the others vacuum has nothing to remove."""


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


def _draw_soak(rows: Mapping[str, Row]) -> str | None:
    if "soak" not in rows:
        return None
    row = rows["soak"]
    memory = dict(row["memory_mib"])
    small = [memory.pop(name) for name in ("supervisor", "forks", "sandbox")]
    memory["the others"] = [sum(values) for values in zip(*small, strict=True)]
    panels = {
        "Transfers a second": row["per_second_in"],
        "An answer took, ms": row["answered_ms"],
        "What is due longest is late by, ms": _scaled(row["lag_s"], 1000),
        f"Memory by process, MiB; of what PostgreSQL's share, {row['shared_buffers_mib']:,} are its cache": memory,
        "WAL, MB": row["wal_mb"],
        "Tables, MB": _largest(row["tables_mb"]),
        "Indexes, MB": _largest(row["indexes_mb"]),
        "Dead rows that vacuum has not removed": _largest(row["dead_rows"]),
        "Seconds since vacuum has ended": {
            name: values for name, values in row["unvacuumed_s"].items() if name in _CHANGING
        },
    }
    minutes = [at_s / 60 for at_s in row["at_s"]]

    def lines_of(lines: _Lines) -> list[Series]:
        return [
            Series(name.replace("_cache", ", shared"), list(zip(minutes, values, strict=True)))
            for name, values in lines.items()
        ]

    return draw_lines(
        f"{short(round(row['lasted_s'] / 60, 1))} minutes at {row['per_second']:,.0f} transfers' lives a second, then rest",
        "minutes",
        [Panel(title, lines_of(lines)) for title, lines in panels.items()],
    )


def _scaled(lines: _Lines, scale: float) -> _Lines:
    return {name: [scale * value for value in values] for name, values in lines.items()}


def _largest(lines: _Lines) -> _Lines:
    """As many lines as can be told apart; the smallest in one."""
    ordered = sorted(lines, key=lambda name: max(lines[name]), reverse=True)
    named = [name for name in ordered if name != "other" and any(lines[name])][: COLOURS - 1]
    rest = [values for name, values in lines.items() if name not in named]
    found = {name: lines[name] for name in named}
    return found | ({"the others": [sum(values) for values in zip(*rest, strict=True)]} if rest else {})


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


def _cost_bar(label: str, row: Row, said: str = "") -> Bar:
    cpu = row["cpu_us_each"]
    # What is measured beyond rest may come out a little below nothing.
    parts = [(kind, max(0.0, cpu.get(kind, 0.0))) for kind in _PROCESSES]
    in_all = f"{sum(value for _, value in parts):,.0f} µs"
    return Bar(label, parts, f"{in_all}; {said}" if said else in_all)


CHARTS: dict[str, dict[str, Callable[[Mapping[str, Row]], str | None]]] = {
    "Requests accepted": {"cost.svg": _draw_cost, "ratios.svg": _draw_ratios},
    "For long": {"soak.svg": _draw_soak},
    "Growth": {"growth.svg": _draw_growth},
}
"""By the part of the page that they stand in."""
