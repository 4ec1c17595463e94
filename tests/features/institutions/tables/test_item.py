"""Plans that are made before anybody has counted an account's lines serve it when it has many."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import date
from itertools import permutations, product
from typing import Any, Final, Literal, cast

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem, ItemKind
from pixconnect.features.institutions.rules.joining import ItemJoin
from pixconnect.features.institutions.rules.special_line import is_about_block
from pixconnect.features.institutions.tables import item as item_store
from pixconnect.features.institutions.tables.books import ABOUT_BLOCKS
from pixconnect.platform.pool import Connection, connect
from support.postgres import Addresses, execute_as_owner
from support.service import Service

ACCOUNT_ID: Final = 1
LOOKED_FOR: Final = [f"line-{number}" for number in range(2_000)]

_ADD: Final = f"""
    set session_replication_role = replica;
    set search_path = pixconnect;
    insert into institution_item (institution_id, item_id, day, direction, amount_cents, kind, text, source, recorded_at)
    select {ACCOUNT_ID}, 'line-' || number, '2026-05-01', 'IN', number, 'pix', '', 'api', now()
    from generate_series(1, 5000) as number
"""


def _join(connection: Connection) -> Awaitable[Any]:
    joins = [ItemJoin(item_id=name, key=("transfer", name), by="name") for name in LOOKED_FOR]
    return item_store.join(connection, ACCOUNT_ID, joins)


_STATEMENTS: Final[dict[str, Callable[[Connection], Awaitable[Any]]]] = {
    "item_id": lambda connection: item_store.find(connection, ACCOUNT_ID, LOOKED_FOR),
    "joined_by": _join,
    "joined_id": lambda connection: item_store.find_joined(connection, ACCOUNT_ID, [("transfer", name) for name in LOOKED_FOR]),
    "fee_of_kind": lambda connection: item_store.note_fees(
        connection, ACCOUNT_ID, {name: ("transfer", name) for name in LOOKED_FOR}
    ),
    "waits": lambda connection: item_store.note_waiting(connection, ACCOUNT_ID, dict.fromkeys(LOOKED_FOR, "could_be_ours")),
}


class _Explaining:
    """Asks how a statement would be done, and does nothing."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.plan: list[str] = []

    async def fetch(self, statement: str, *arguments: object) -> list[Any]:
        self.plan = [row[0].strip() for row in await self._connection.fetch(f"explain {statement}", *arguments)]
        return []

    async def executemany(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        await self.fetch(statement, *rows[0])


# A new one, because statistics of another test's rows stay behind.
@pytest.mark.parametrize("plans_once", [False, True])
async def test_no_line_is_looked_for_among_all_of_its_account(new_database: Addresses, *, plans_once: bool) -> None:
    await execute_as_owner(new_database, _ADD)
    connection = await connect(
        new_database.service_url, role="pixconnect_service", schema="pixconnect", name="test", plans_once=plans_once
    )
    plans: dict[str, list[str]] = {}
    try:
        for name, looks in _STATEMENTS.items():
            explaining = _Explaining(connection)
            await looks(cast("Connection", explaining))
            plans[name] = explaining.plan
    finally:
        await connection.close()
    for plan in plans.values():
        conditions = [line for line in plan if line.startswith("Index Cond")]
        assert conditions, plan
        names = ("item_id = ", "joined_id = ", "record_id = ")
        assert all(any(name in condition for name in names) for condition in conditions), plan


async def test_a_line_about_a_block_is_the_same_by_the_tables_as_by_the_rules(service: Service) -> None:
    words = (
        "DESBLOQ MED", "BLOQUEIO", "BLOQUETO", "PIX RECEBIDO", "PIX ENVIADO", "PAGADOR", "PAGO", "LOJA", "desbloqueio", "XBLOQ"
    )  # fmt: skip
    texts = [" ".join(some) for count in (1, 2, 3) for some in permutations(words, count)]
    kinds: tuple[ItemKind, ...] = ("judicial", "fee", "wire", "pix")
    directions: tuple[Literal["IN", "OUT"], ...] = ("IN", "OUT")
    for kind, direction in product(kinds, directions):
        line = InstitutionItem(
            item_id="A", day=date(2026, 7, 1), settled_at=None, direction=direction, kind=kind, amount_cents=1
        )
        query = (
            f"select {ABOUT_BLOCKS} as found from unnest($1::text[], $2::text[], $3::text[]) as line (text, kind, direction)"
        )
        rows = await service.fetch(query, texts, [kind] * len(texts), [direction] * len(texts))
        assert [row["found"] for row in rows] == [is_about_block(structs.replace(line, text=text)) for text in texts]
