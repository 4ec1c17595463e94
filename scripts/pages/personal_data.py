"""``docs/reference/personal-data.md``, from the register of personal data."""

from collections import defaultdict
from datetime import date, timedelta

from pixconnect.domain.rules.register import NOT_PERSONAL, RETENTIONS, TEXT_COLUMNS, Retention, RetentionEnd

_ENDS = {
    RetentionEnd.WORKER: "a worker empties it",
    RetentionEnd.PARTITION: "a worker drops its partition",
    RetentionEnd.VERB: "a verb or the API takes it out",
    RetentionEnd.NEVER: "nothing yet: it stays with the database",
}


def write_page() -> str:
    """``docs/reference/personal-data.md``."""
    lines = [
        "# People's data",
        "",
        "What is kept of whom, why, and for how long. Written by `make docs` from `retention.csv` and `text_columns.csv` in",
        "`src/pixconnect/domain/rules`; a test holds that each column of the database that can hold texts stands there.",
        "[The guide](../guides/answer-a-persons-request.md) says how to answer a person who asks.",
        "",
        "- *At least* is what no request ends earlier; *at most* is when the program takes it out unasked. Both run from what",
        "  *runs from* says, and never by the clock of a sandbox.",
        "- *Standing* is as in [the rules of the arrangement](rules.md): *cited* names the law, *ours* is our own choice.",
        "  This is what a program does by itself, and no advice: who is an institution, or is sued, has duties beside it.",
        "- An operator sets the period of `event` alone, by `PIXCONNECT_EVENT_RETENTION_DAYS`.",
        "",
        "| Data | Of whom | Why | At least | At most | Runs from | At its end | Standing | Source |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [_write_row(kept) for rows in RETENTIONS.rows.values() for kept in rows]
    lines += ["", "## Where it stands", "", "| Data | Columns |", "|---|---|"]
    columns: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (table, column), data in TEXT_COLUMNS.items():
        columns[data][table].append(column)
    for name in RETENTIONS.rows:
        tables = "; ".join(f"`{table}`: {', '.join(of_table)}" for table, of_table in sorted(columns[name].items()))
        lines.append(f"| {name} | {tables} |")
    others = len([None for data in TEXT_COLUMNS.values() if data == NOT_PERSONAL])
    lines += [
        "",
        f"The other {others} columns that can hold texts are about nobody: states, digests, names of programs.",
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
