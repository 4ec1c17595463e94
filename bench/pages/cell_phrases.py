"""What rows of results about cells say: lines of the page of figures, and the table of the page on scale."""

from collections.abc import Iterator, Mapping
from typing import Final

from bench.figures import Row

_OF: Final = {"one_of_four": "the home cell of four", "two": "two of four", "four": "all four"}
_THIN: Final = {"two_thin": "two of four", "four_thin": "all four"}
_ALL: Final = (
    {"one": "one cell"}
    | {name: f"{what}, as many callers in each" for name, what in _OF.items()}
    | {name: f"{what}, as many callers in all" for name, what in _THIN.items()}
)


def say_table(transfers: Row, charges: Row) -> Iterator[str]:
    """A line for each way to ask, with what a life costs, how large batches were, and one cell's cost with such batches."""
    yield "| | a transfer | in a batch | by one cell's | a charge paid | in a batch | by one cell's |"
    yield "|---|---|---|---|---|---|---|"
    for name, what in _ALL.items():
        yield f"| {what} | {_say_costs(transfers[name])} | {_say_costs(charges[name])} |"


def _say_costs(costs: Mapping[str, float]) -> str:
    return f"{costs['cpu_us_each_in_all']:,.0f} µs | {costs['batch']:.1f} | {costs['same_batch_ratio']:.2f}"


def say_spread(row: Row) -> str:
    one = row["one"]
    others = "; ".join(
        f"{what} {row[name]['cpu_us_each_in_all']:,.0f} µs with {row[name]['batch']:.1f} in a batch, "
        f"{row[name]['same_batch_ratio']:.2f} of one cell's with such batches ({min(row[name]['same_batch_ratios']):.2f} to "
        f"{max(row[name]['same_batch_ratios']):.2f})"
        for name, what in _OF.items()
    )
    thin = ", ".join(
        f"{what} {row[name]['ratio']:.2f} with {row[name]['batch']:.1f} in a batch" for name, what in _THIN.items()
    )
    return (
        f"one cell {one['cpu_us_each_in_all']:,.0f} µs a life (processes {one['ours_us']:,.0f}, PostgreSQL "
        f"{one['postgres_us']:,.0f}) with {one['batch']:.1f} in a batch; as many callers in each of several: {others}; as many "
        f"in all: {thin} of one cell's; {row['rounds']} rounds, {say_load(row)}"
    )


def say_rest(row: Row) -> str:
    in_all = row["cpu_percent_in_all"]
    return (
        f"{row['each_percent']:.2f} % of a core for each cell beside the home cell, its part of a server included: one cell "
        f"{in_all['one']:.1f} %, four on three servers {in_all['four']:.1f} %; load average {row['load']:.1f}"
    )


def say_outage(row: Row) -> str:
    said = "; ".join(
        f"{what} p50 {_by_phase(row[name], 'p50_ms')}, p99 {_by_phase(row[name], 'p99_ms')} before, during and after (p99 "
        f"during by before {row['p99_ratio'][name]:.2f}; rounds "
        f"{', '.join(f'{ratio:.2f}' for ratio in row['p99_ratios'][name])})"
        for name, what in (("accepted", "answered after"), ("confirmed", "CONFIRMED after"))
    )
    return (
        f"{said}; {row['refused']} refused; the others were served again {row['back_after_s']:.1f} s after their server was "
        f"there at most; {say_load(row)}"
    )


def _by_phase(by_phase: Row, name: str) -> str:
    return ", ".join(f"{by_phase[phase][name]:.0f}" for phase in ("before", "during", "after")) + " ms"


def say_moves(row: Row) -> str:
    return (
        f"{row['rounds']} moves, {row['answered']:,} answers: lost {row['lost']}, extra {row['extra']}, wrong sums "
        f"{row['wrong_sums']}; outcome unknown {row['unknown']}, refused {row['refused']}; nobody answered for p50 "
        f"{row['silence_p50_s']:.1f} s, at most {row['silence_max_s']:.1f} s; {row['undone']} moves undone by themselves and "
        f"run again; {say_load(row)}"
    )


def say_copy(row: Row) -> str:
    return (
        f"{row['rows_per_second']:,.0f} rows and {row['mb_per_second']:.1f} MB a second, {row['mb']:,.0f} MB in "
        f"{row['seconds']:.0f} s, of which {row['empty_s']:.0f} s are any cell's; CPU of PostgreSQL "
        f"{row['cpu_s']['postgres']:.0f} s, load average {row['load']:.1f}"
    )


def say_load(row: Row) -> str:
    return f"load average {row['load'][0]:.1f} to {row['load'][1]:.1f}"
