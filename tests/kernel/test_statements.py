"""PostgreSQL prepares every statement of the store, on each version that we support (``make test-16``)."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from types import ModuleType

import asyncpg

import pixconnect
from pixconnect.kernel.feature import gather
from pixconnect.kernel.tables import clock
from pixconnect.kernel.tables.clock import Deadline
from pixconnect.kernel.tables.lookup import Column, Pairs, Statement, Value
from pixconnect.kernel.tables.table import Table
from support.service import Service

BEGINS = re.compile(r"\s*(select|insert|update|delete|with|merge)\b", re.IGNORECASE)
OTHER_SCHEMAS = ("pixconnect.features.proof.tables.run", "pixconnect.features.sandbox.network.tables")
"""Their statements need the tables of ``verify`` and of the simulated network: the tests of these run them."""
FRAGMENTS = {
    "pixconnect.kernel.tables.charge._SHOW_LOCKED",
    "pixconnect.features.proof.tables.reports._BY_INSTANT",
    "pixconnect.features.proof.tables.reports._BY_NAME",
}
"""Parts of larger statements."""


def list_statements() -> Iterator[tuple[str, str]]:
    """Constants of modules that are whole statements. Templates, which have braces, are filled by their functions."""
    for found in pkgutil.walk_packages(pixconnect.__path__, "pixconnect."):
        if ".tables" not in found.name or found.name in OTHER_SCHEMAS:
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            is_whole = isinstance(value, str) and BEGINS.match(value) and "{" not in value
            if is_whole and f"{found.name}.{name}" not in FRAGMENTS:
                yield f"{found.name}.{name}", value
            if isinstance(value, Statement):
                yield f"{found.name}.{name}", value.text
        yield from list_of_tables(importlib.import_module(found.name))
    for deadline in gather("deadlines", Deadline):
        for part in (deadline.first, deadline.last, deadline.is_undone):
            if part is not None:
                yield "a deadline", part
    yield from (("a deadline", part) for part in (*clock._FIRST_DUE, *clock._LAST_DUE))


def list_of_tables(module: ModuleType) -> Iterator[tuple[str, str]]:
    """The tables from which a module reads, inserts and updates by their methods."""
    tables = {name: table for name, table in vars(module).items() if isinstance(table, Table)}
    for function in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(function, ast.AsyncFunctionDef):
            continue
        assigned = [(each.target, each.value) for each in ast.walk(function) if isinstance(each, ast.AnnAssign)]
        own = {target.id: value for target, value in assigned if isinstance(target, ast.Name)}
        for call in ast.walk(function):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="find" | "find_all" | "change" as way)):
                    if name in tables:
                        rest = call.args[1]
                        rest = own.get(rest.id, rest) if isinstance(rest, ast.Name) else rest
                        text = eval(ast.unparse(rest), {"end": "", **vars(module)})  # noqa: S307  of our own source
                        table = tables[name]
                        end = f" returning {table.select}" if way == "change" else ""
                        begin = f"update {table.name}" if way == "change" else f"select {table.select} from {table.name}"
                        yield f"{module.__name__}.{function.name}", f"{begin} {text}{end}"
                case _:
                    pass


async def test_every_statement_is_prepared(service: Service) -> None:
    refused: list[str] = []
    prepared = 0
    async with service.context.pool.acquire() as connection:
        for name, statement in list_statements():
            try:
                await connection.prepare(statement)
            except asyncpg.PostgresError as error:
                refused.append(f"{name}: {error}")
            prepared += 1
    assert not refused, "\n".join(refused)
    assert prepared > 200


async def test_a_declared_statement_has_as_many_columns_as_are_read(service: Service) -> None:
    widths: dict[type[Statement], int] = {Value: 1, Column: 1, Pairs: 2}
    modules = {one.name for one in pkgutil.walk_packages(pixconnect.__path__, "pixconnect.") if ".tables" in one.name}
    declared = [one for name in modules - {*OTHER_SCHEMAS} for one in vars(importlib.import_module(name)).values()]
    async with service.context.pool.acquire() as connection:
        for one in declared:
            if (width := widths.get(type(one))) is not None:
                assert len((await connection.prepare(one.text)).get_attributes()) == width, one.text
