"""``docs/reference/personal-data.md``, from the register of personal data."""

from collections import defaultdict
from datetime import date, timedelta

from pixconnect.kernel.register import NOT_PERSONAL, RETENTIONS, TEXT_COLUMNS, Retention

_ENDS = {
    "worker": "a worker empties it",
    "partition": "a worker drops its partition",
    "verb": "a verb or the API deletes it",
    "never": "nothing yet: it stays as long as the database",
}


def write_page() -> str:
    """``docs/reference/personal-data.md``."""
    lines = [
        "# People's data",
        "",
        "Stored personal data, their purposes and periods. Written by `make docs` from `retention.csv` and `text_columns.csv`",
        "in `src/pixconnect/kernel/register` and the features' `text_columns`, which list each text column of the database.",
        "[Answer a data request](../guides/answer-a-persons-request.md) has the steps for a request.",
        "",
        "- *At least*: no request erases the data earlier. *At most*: the program erases them then. Both start at *runs from*,",
        "  in real time and not by a sandbox's clock.",
        "- *Standing* is as in [the rules of the arrangement](rules.md): *cited* names the law, *ours* is our own choice.",
        "  This page describes the program and is no advice: institutions and parties of a lawsuit have further duties.",
        "- An operator can only set the period of `event`, by `PIXCONNECT_EVENT_RETENTION_DAYS`.",
        "",
        "| Data | Of whom | Why | At least | At most | Runs from | At its end | Standing | Source |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_write_row(kept) for rows in RETENTIONS.rows.values() for kept in rows]
    lines += ["", "## Columns", "", "| Data | Columns |", "|---|---|"]
    columns: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (table, column), data in TEXT_COLUMNS.items():
        columns[data][table].append(column)
    for name in RETENTIONS.rows:
        tables = "; ".join(f"`{table}`: {', '.join(of_table)}" for table, of_table in sorted(columns[name].items()))
        lines.append(f"| {name} | {tables} |")
    others = len([None for data in TEXT_COLUMNS.values() if data == NOT_PERSONAL])
    lines += [
        "",
        f"The other {others} text columns hold no personal data: states, digests, names of programs.",
    ]
    return "\n".join(lines) + "\n"


def _write_row(kept: Retention) -> str:
    since = "" if kept.since == date.min else f" since {kept.since.isoformat()}"
    return (
        f"| {kept.says} (`{kept.name}`){since} | {kept.whose} | {kept.why} | {_days(kept.at_least)} | {_days(kept.at_most)} "
        f"| {kept.clock} | {_ENDS[kept.ends]} | {kept.standing} | {kept.source} |"
    )


def _days(length: timedelta | None) -> str:
    return "" if length is None else f"{length.days:,} days"
