"""Declared tables match the database, rows become the records that were written, and equal values are sent once."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType, NoneType
from typing import Any, Final, LiteralString, cast, get_args, get_type_hints

import asyncpg
import msgspec
import pytest
from msgspec import Struct

import pixconnect
from pixconnect.features.webhooks.tables.feed import EVENT
from pixconnect.kernel.rules.event import Event
from pixconnect.kernel.tables import event as event_store
from pixconnect.kernel.tables.table import Part, Table, Update, numbered, of_columns
from support.postgres import Addresses
from support.records import NOW, make_event


def list_modules() -> Iterator[ModuleType]:
    for module in pkgutil.walk_packages(pixconnect.__path__, "pixconnect."):
        if ".tables" in module.name:
            yield importlib.import_module(module.name)


TABLES: Final[dict[str, Table[Any]]] = {
    f"{module.__name__}.{name}": value
    for module in list_modules()
    for name, value in vars(module).items()
    if isinstance(value, Table)
}
NOT_IN_RECORDS: Final = {
    "case_note": {"id"},
    "client": {"secret_hash", "secret_key_id"},
    "holder": {"key_webhooks_count"},
    "console_operator": {"given_login"},
    "console_session": {"token_hash", "login"},
    "whole_balance": {"settlement_cents", "funding_cents", "difference_cents", "funds_cents"},
    "charge_change": {"wanted_digest"},
    "charge_opening": {"wanted_digest", "code_digest"},
    "delivery": {"modified_at", "notice", "covered_by"},
    "delivery_attempt": {"delivery_id"},
    "proof_run": {"seen_at"},
    "proposal": {"id", "confirmed_by", "done_at", "proposed_login", "proposed_door", "account_login"},
    "institution_account": {"receiving_sealed", "sending_sealed", "removed_at"},
    "institution_allowance": {"naming_key"},
    "kept_report": {"fingerprint"},
    "movement": {"id", "institution_id"},
    "refused_credit": {"refused_at"},
    "webhook_endpoint": {"resumed_at"},
}
"""Columns that are only used in statements. A new column must be in its table's declaration, or here."""
NEVER_READ_AS_NULL: Final = {"delivery.due_at"}  # only pending deliveries are read as due, and they have an instant

_COLUMNS: Final = """
    select atttypid = to_regtype($2) as is_of_type, not attnotnull as is_nullable,
        attidentity <> '' or relkind = 'v' as is_made_here
    from pg_attribute join pg_class on pg_class.oid = attrelid
    where attrelid = $1::text::regclass and attname = $3 and not attisdropped
"""
_NAMES: Final = """
    select attname from pg_attribute where attrelid = $1::text::regclass and attnum > 0 and not attisdropped
"""


async def test_a_declared_table_is_the_one_in_the_database(database: Addresses) -> None:
    for name in TABLES:
        table = TABLES[name]
        hints = get_type_hints(table.record)
        connection = await asyncpg.connect(database.owner_url)
        try:
            await connection.execute("set search_path = pixconnect, verify")
            for column, sql_type in table.types.items():
                found = await connection.fetchrow(_COLUMNS, table.name, sql_type, column)
                assert found is not None, f"{table.name} has no {column}"
                assert found["is_of_type"], f"{table.name}.{column} is no {sql_type}"
                if column in hints and not found["is_made_here"] and f"{table.name}.{column}" not in NEVER_READ_AS_NULL:
                    assert found["is_nullable"] == (NoneType in get_args(hints[column])), f"{column}: null and None"
            known = set().union(*(other.types for other in TABLES.values() if other.name == table.name))
            in_database = {row["attname"] for row in await connection.fetch(_NAMES, table.name)}
            assert in_database - known == NOT_IN_RECORDS.get(table.name, set())
        finally:
            await connection.close()


def list_updated(module: ModuleType) -> Iterator[tuple[str, str]]:
    """The columns that a module's parts and tables update, with the table of each."""
    declared = vars(module)
    for part in declared.values():
        if isinstance(part, Part) and (found := re.match(r"\s*update (\w+) set (.*?) from", part.sql, re.DOTALL)):
            yield from ((found[1], column) for column in re.findall(r"(\w+) = new\.", found[2]))
        if isinstance(part, Update):
            yield from ((part.table, column) for column in part.changed)
    for name in re.findall(r"\b(\w+)\.put\(", inspect.getsource(module)):
        if isinstance(table := declared.get(name), Table):
            yield from ((table.name, column) for column in table.types if column not in table._key)


_MISSING: Final = """
    select format('grant update (%s) on %s', column_name, table_name)
    from unnest($1::text[], $2::text[]) as updated (table_name, column_name)
    where not exists (
        select from unnest(array['pixconnect_service', 'pixconnect_operator']) as role
        where has_column_privilege(role, table_name, column_name, 'update')
    )
"""


async def test_each_column_that_is_updated_is_granted(database: Addresses) -> None:
    updated = [("charge", "txid"), *{pair for module in list_modules() for pair in list_updated(module)}]
    assert {("charge", "payer_name"), ("holder", "street")} < set(updated)
    connection = await asyncpg.connect(database.owner_url)
    try:
        await connection.execute("set search_path = pixconnect, verify")
        missing = await connection.fetch(_MISSING, *zip(*updated, strict=True))
        assert [row[0] for row in missing] == ["grant update (txid) on charge"], "the first is never granted, as a sample"
    finally:
        await connection.close()


class Point(Struct, frozen=True, kw_only=True):
    x: int
    y: int


class Position(Struct, frozen=True, kw_only=True):
    id: int
    point: Point | None
    words: tuple[str, ...]
    holder_name: str


def _point(x: int | None, y: int | None) -> Point | None:
    return None if x is None or y is None else Point(x=x, y=y)


PLACE: Final = Table(
    "place",
    Position,
    "id bigint, x bigint, y bigint, words text[]",
    key=("id",),
    read={"point": (_point, "x", "y"), "words": (tuple, "words")},
    write={
        "x": lambda place: place.point and place.point.x,
        "y": lambda place: place.point and place.point.y,
        "words": lambda place: list(place.words),
    },
    joined=("holder_name",),
)
HERE = Position(id=1, point=Point(x=2, y=3), words=("a", "b"), holder_name="Maria")
NOWHERE = Position(id=4, point=None, words=(), holder_name="Jose")


def test_texts_for_statements_name_each_column_in_one_order() -> None:
    assert PLACE.select == "place.id, place.x, place.y, place.words"
    assert PLACE.names == "id, x, y, words"
    assert PLACE.parameters == "$1::bigint, $2::bigint, $3::bigint, $4::text[]"
    assert PLACE.array_parameters == "{}::bigint[], {}::bigint[], {}::bigint[], {}::text[][]"
    assert PLACE.assignments == "x = new.x, y = new.y, words = new.words"


def test_some_columns_are_named_and_written_as_all_of_them_are() -> None:
    moved = PLACE.only("id", "y")
    assert moved.names == "id, y"
    assert moved.assignments == "y = new.y"
    assert list(map(list, moved.arrays([HERE, NOWHERE]))) == [[1, 4], [3, None]]
    assert PLACE.without("x", "words").names == moved.names


def test_what_is_written_is_read_back_by_names_in_any_order_and_among_others() -> None:
    for place in (HERE, NOWHERE):
        written = dict(zip(PLACE.types, PLACE.values(place), strict=True))
        row = {"count": 7, "holder_name": place.holder_name} | dict(reversed(written.items()))
        assert PLACE.read(cast("asyncpg.Record", row)) == place


def test_no_row_is_no_record() -> None:
    assert PLACE.read_found(None) is None


@pytest.mark.parametrize(
    "columns",
    ["x bigint", "x bigint, y bigint, z bigint"],
    ids=["an attribute without its column", "a column that becomes nothing"],
)
def test_a_declaration_that_does_not_fit_its_record_is_refused_at_once(columns: LiteralString) -> None:
    with pytest.raises(TypeError, match="Point and its columns do not agree"):
        Table("point", Point, columns)


EVENTS = [make_event(number, number, 7, "qrcode.pending", NOW) for number in (1, 2, 3)]
PART = of_columns(EVENT, name="rows", sql=f"select {EVENT.names} from ({{rows}}) as new ({{names}})", once=["name, created_at"])


async def test_rows_that_are_alike_are_the_same_rows(database: Addresses) -> None:
    once, arguments = PART.fit(EVENTS)
    assert once == PART.alike[0].sql
    connection = await asyncpg.connect(database.owner_url)
    try:
        each = numbered(PART.sql, len(EVENT.types))
        alike = numbered(once, len(arguments))
        assert await connection.fetch(alike, *arguments) == await connection.fetch(each, *EVENT.arrays(EVENTS))
    finally:
        await connection.close()


@pytest.mark.parametrize("change", [{"name": "qrcode.expired"}, {"created_at": NOW.replace(microsecond=1)}])
def test_rows_that_differ_where_they_mostly_do_not_are_not_alike(change: dict[str, Any]) -> None:
    events: list[Event] = [*EVENTS, msgspec.structs.replace(EVENTS[0], **change)]
    assert PART.fit(events) == (PART.sql, EVENT.arrays(events))
    assert event_store.APPEND.fit(events) == (event_store.APPEND.sql, EVENT.arrays(events))


def test_rows_of_one_holder_are_sent_with_the_least() -> None:
    of_one = [msgspec.structs.replace(event, holder_id=1) for event in EVENTS]
    assert [event_store.APPEND.fit(events)[0] for events in (of_one, EVENTS)] == [
        alike.sql for alike in event_store.APPEND.alike
    ]
