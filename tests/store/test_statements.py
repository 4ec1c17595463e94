"""PostgreSQL prepares every statement of the store, on each version that we support (``make test-16``)."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import asyncpg

from pixconnect import store
from support.service import Service

BEGINS = re.compile(r"\s*(select|insert|update|delete|with|merge)\b", re.IGNORECASE)
OTHER_SCHEMA = "pixconnect.store.proof.run"
"""Its statements need the tables that ``verify`` makes: the tests of ``verify`` run them."""
FRAGMENTS = {
    "pixconnect.store.money.charge._SHOW_LOCKED",
    "pixconnect.store.proof.rail._BY_INSTANT",
    "pixconnect.store.proof.rail._BY_NAME",
    "pixconnect.store.webhooks.redelivery._FOUND",
}
"""Parts of larger statements."""


def list_statements() -> Iterator[tuple[str, str]]:
    """Constants of modules that are whole statements. Templates, which have braces, are filled by their functions."""
    for found in pkgutil.walk_packages(store.__path__, "pixconnect.store."):
        if found.name == OTHER_SCHEMA:
            continue
        for name, value in vars(importlib.import_module(found.name)).items():
            is_whole = isinstance(value, str) and BEGINS.match(value) and "{" not in value
            if is_whole and f"{found.name}.{name}" not in FRAGMENTS:
                yield f"{found.name}.{name}", value


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
    assert prepared > 400
