"""The page of the tables: a drawing of each subject, and each column with its type and its ``comment on``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import asyncpg

from pixconnect.features.proof.tables.shape import FILE_NAME, read_shape, write_shape
from scripts.pages.catalogue import OTHERS, SCHEMAS, SUBJECTS, Table, read_tables
from scripts.pages.schema_drawing import draw_tables

MEND = "the file is not what the program says now: run `make docs`"
ROOT = Path(__file__).resolve().parents[2]
SHAPE = ROOT / "src/pixconnect/features/proof/tables" / FILE_NAME
PAGE = "schema.md"
DRAWINGS = "schema"  # the folder of the drawings, beside the page

_TITLES = {
    "identity": "Identity: holders, keys, clients, people",
    "money": "Money: ledger, charges, transfers, refunds",
    "institutions": "Accounts at institutions",
    "standard": "The central bank's API",
    "webhooks": "Events and webhooks",
    "running": "The installation itself",
    "proof": "Proof of the books, in the schema verify",
    "sandbox": "The simulated network, in the schema sandbox",
    OTHERS: "Other tables",
}
_OF_SCHEMAS = dict(sandbox="sandbox", verify="proof")
_HEAD = """\
# Tables

Each table with its columns and their meaning, from the database's own comments (`comment on`). Written by `make docs`.
Constraints, indexes, triggers, functions and grants are in the [kernel's schema](../../src/pixconnect/kernel/schema) and in
`schema.sql` of each feature, those of the simulated network in
[another](../../src/pixconnect/features/sandbox/network/schema) and in `sandbox.sql` of features, and those of `verify` in
[a third](../../src/pixconnect/features/proof/tables/schema).

Money is in cents. *Service time* is the time that callers see, which a sandbox may move; *real time* is the server's clock. In
the drawings `?` marks nullable values and bold names the primary key; an arrow names the referenced table. A solid line between
adjacent tables is a foreign key, a dashed one is enforced by triggers or the program."""


def write_page(schemas: Mapping[str, Sequence[Table]]) -> str:
    lines = [_HEAD]
    for subject, tables in _by_subject(schemas).items():
        title = _TITLES[subject]
        lines += ["", f"## {title}", "", f"![{title}]({DRAWINGS}/{subject}.svg)"]
        for table in tables:
            heading = f"sandbox.{table.name}" if subject == "sandbox" else table.name
            lines += ["", f"### {heading}", "", table.comment or "", "", "| Column | Type | Meaning |", "|---|---|---|"]
            for column in table.columns:
                kind = column.type if column.is_required or table.view else f"{column.type}, or null"
                lines.append(f"| `{column.name}` | {kind} | {column.comment or ''} |")
    return "\n".join(lines) + "\n"


def draw(schemas: Mapping[str, Sequence[Table]]) -> dict[str, str]:
    """The drawings, by file name."""
    found: dict[str, str] = {}
    for subject, tables in _by_subject(schemas).items():
        others = schemas[next((schema for schema, alone in _OF_SCHEMAS.items() if alone == subject), "pixconnect")]
        found[f"{subject}.svg"] = draw_tables(_TITLES[subject], tables, {table.name: table for table in others})
    return found


def _by_subject(schemas: Mapping[str, Sequence[Table]]) -> Mapping[str, Sequence[Table]]:
    """Tables of another schema are a subject of their own, whatever their names."""
    # Of a name in two subjects the first counts.
    subjects = {name: subject for subject, names in reversed(SUBJECTS.items()) for name in names}
    found: dict[str, list[Table]] = {}
    for schema, tables in schemas.items():
        for table in tables:
            found.setdefault(_OF_SCHEMAS.get(schema) or subjects.get(table.name, OTHERS), []).append(table)
    return {subject: found[subject] for subject in (*SUBJECTS, OTHERS) if subject in found}


async def write_tables(owner_url: str) -> dict[str, str]:
    """The page of the tables of a migrated database, and its drawings."""
    schemas = {name: await read_tables(owner_url, name) for name in SCHEMAS}
    drawings = {f"{DRAWINGS}/{name}": drawing for name, drawing in draw(schemas).items()}
    return {PAGE: write_page(schemas), **drawings}


async def describe_shape(owner_url: str) -> str:
    """The shape of the tables of a migrated database, as ``verify`` compares it."""
    connection = await asyncpg.connect(owner_url, server_settings=dict(search_path="pixconnect"))
    try:
        return write_shape(await read_shape(connection))
    finally:
        await connection.close()
