"""Writes ``schema.sql``: the tables of a migrated database as they are, whichever migrations made them."""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pixconnect.foundation.migrations import read_migrations
from scripts.pages.catalogue import Function, Grant, Schema, Table

PACKAGES = {"pixconnect": "pixconnect.store", "sandbox": "pixconnect.sandbox", "verify": "pixconnect.store.proof"}
"""Each schema with the package whose migrations make it, beside which its ``schema.sql`` stands."""
_SOURCE = Path(__file__).resolve().parents[2] / "src"

_WIDTH = 128
_HEAD = """\
The schema {schema} as the migrations beside this file leave it; `make docs` writes it from a database that they have made.
It is for reading, and nothing runs it: `pixconnect migrate` runs the migrations, and a test holds that a database made from
this file is the same. A function that several migrations define stands here as the last of them left it, under their numbers.
Definitions are PostgreSQL's own, not the words of the migrations. Rows that migrations insert are left out.
`pixconnect migrate --roles-only` makes the roles; what only one mode grants is granted at each start
(src/pixconnect/foundation/privileges.py). A function that triggers call stands before the first table with such a trigger; all
others stand at the end."""


def write_schema(schema: Schema) -> str:
    """The whole file."""
    called = {trigger.function for table in schema.tables for trigger in table.triggers}
    origins = _find_origins(schema.name)

    def write_function(function: Function) -> str:
        return _write_function(function, origins[function.name])

    parts = [
        _remark(_HEAD.format(schema=schema.name)),
        f"create schema {schema.name};\nset search_path = {schema.name};\nset check_function_bodies = off;",
        *_write_grants("schema", schema.name, schema.grants),
        *(f"create type {name} as enum ({_quoted(labels)});" for name, labels in schema.enums.items()),
        *(_write_sequence(*sequence) for sequence in schema.sequences),
    ]
    left = {function.name: function for function in schema.functions if function.name in called}
    for table in schema.tables:
        wanted = dict.fromkeys(trigger.function for trigger in table.triggers if trigger.function in left)
        parts += [*(write_function(left.pop(name)) for name in wanted), _write_table(table)]
    parts += [write_function(function) for function in schema.functions if function.name not in called]
    return "\n\n".join(parts) + "\n"


def path_of(schema: str) -> Path:
    """Where the file stands: beside the migrations."""
    return _SOURCE.joinpath(*PACKAGES[schema].split("."), "schema.sql")


_DEFINES = re.compile(r"^create (?:or replace )?function (?:\w+\.)?(\w+)", re.MULTILINE)


def _find_origins(schema: str) -> Mapping[str, Sequence[str]]:
    """The numbers of the migrations that define each function."""
    found: dict[str, list[str]] = {}
    for migration in read_migrations(PACKAGES[schema]):
        for name in dict.fromkeys(_DEFINES.findall(migration.sql)):
            found.setdefault(name, []).append(f"{migration.version:04d}")
    return found


def _write_table(table: Table) -> str:
    lines = [_remark(f"{table.name}: {table.comment}")] if table.comment else []
    if table.view:
        lines.append(f"create view {table.name} as\n{table.view}")
    else:
        inside = [
            *(
                " ".join(filter(None, (column.name, column.type, column.extra, "not null" * column.is_required)))
                for column in table.columns
            ),
            *(f"constraint {constraint.name} {constraint.definition}" for constraint in table.constraints),
        ]
        body = ",\n".join(_fill(line, "    ") for line in inside)
        lines.append(f"create table {table.name} (\n{body}\n){table.ending};")
    lines += [f"create table {name} partition of {table.name} {bounds};" for name, bounds in table.partitions]
    lines += [_fill(f"{index};") for index in table.indexes]
    lines += [_fill(f"{trigger.definition};") for trigger in table.triggers]
    lines += _write_grants("table", table.name, table.grants)
    kind = "view" if table.view else "table"
    if table.comment:
        lines.append(_write_comment(f"{kind} {table.name}", table.comment))
    lines += [
        _write_comment(f"column {table.name}.{column.name}", column.comment)
        for column in table.columns
        if column.comment
    ]
    return "\n".join(lines)


def _write_function(function: Function, origins: Sequence[str]) -> str:
    said = f"migration {origins[0]}" if len(origins) == 1 else f"migrations {', '.join(origins)}"
    name = f"{function.name}({function.arguments})"
    lines = [_remark(f"{function.name}: {said}"), _fill(function.head), f"as $function${function.body}$function$;"]
    lines.append(_fill(f"revoke execute on function {name} from public;"))
    lines += _write_grants("function", name, function.grants)
    if function.comment:
        lines.append(_write_comment(f"function {name}", function.comment))
    return "\n".join(lines)


def _write_sequence(name: str, options: str, grants: Sequence[Grant]) -> str:
    return "\n".join([f"create sequence {name}{options};", *_write_grants("sequence", name, grants)])


def _write_grants(kind: str, name: str, grants: Sequence[Grant]) -> Iterator[str]:
    """One statement for each role."""
    for role in dict.fromkeys(grant.role for grant in grants):
        allowed = ", ".join(
            f"{grant.privilege} ({', '.join(grant.columns)})" if grant.columns else grant.privilege
            for grant in grants
            if grant.role == role
        )
        yield _fill(f"grant {allowed} on {kind} {name} to {role};")


def _write_comment(what: str, comment: str) -> str:
    return _fill(f"comment on {what} is {_quoted([comment])};")


def _quoted(texts: Sequence[str]) -> str:
    return ", ".join("'" + text.replace("'", "''") + "'" for text in texts)


def _remark(text: str) -> str:
    return textwrap.fill(text, _WIDTH, initial_indent="-- ", subsequent_indent="-- ", break_on_hyphens=False)


_WORDS = re.compile(r"(?:'(?:[^']|'')*'|[^\s'])+")
"""What stands in quotes is one of them."""


def _fill(statement: str, indent: str = "") -> str:
    """Break a statement into lines, never inside of quotes."""
    lines = [indent]
    for word in _WORDS.findall(statement):
        if lines[-1].strip() and len(lines[-1]) + len(word) >= _WIDTH:
            lines.append(indent + "   ")
        lines[-1] += word if lines[-1] == indent else f" {word}"
    return "\n".join(lines)
