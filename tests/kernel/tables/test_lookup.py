"""A look-up by a caller's own name costs the same however many holders use that name."""

from typing import Any, Final

from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.transfer import TRANSFER
from support.postgres import Addresses, execute_as_owner
from support.service import Service, send_out


class Recorder:
    """Takes statements instead of a connection."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    async def fetchrow(self, statement: str, *_: object) -> None:
        self.statements.append(statement)

    async def fetch(self, statement: str, *_: object) -> list[Any]:
        self.statements.append(statement)
        return []


# Of an empty table that was vacuumed every index costs the same.
_COPY_IT: Final = """
    insert into transfer select copied.* from transfer, generate_series(1, 2000) as n, jsonb_populate_record(
        transfer, jsonb_build_object('id', id + n, 'external_id', 'x' || n, 'end_to_end_id',
            left(end_to_end_id, 24) || lpad(n::text, 8, '0'))
    ) as copied
"""


async def test_the_index_finds_a_name_with_its_holder(service: Service, caller: Caller, database: Addresses) -> None:
    await send_out(service, caller, 1)
    await execute_as_owner(database, f"set session_replication_role = replica; {_COPY_IT}")
    await execute_as_owner(database, "vacuum analyze transfer")
    recorder: Any = Recorder()
    await lookup.one_by(TRANSFER, "external_id")(recorder, 1, "a")
    await lookup.by_external_ids(TRANSFER)(recorder, [("a", 1)])
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        for statement, arguments in zip(recorder.statements, ("'a', 1", "array['a'], array[1]"), strict=True):
            await connection.execute(f"prepare looked_up as {statement}")
            rows = await connection.fetch(f"explain (analyze, costs off, timing off) execute looked_up ({arguments})")
            await connection.execute("deallocate looked_up")
            plan = [row[0].strip() for row in rows]
            conditions = [line for line in plan if line.startswith("Index Cond") and "external_id" in line]
            assert "holder_id = " in conditions[0], plan
            assert any(line.startswith("One-Time Filter") for line in plan), plan
            assert any("never executed" in line and "asked" in line for line in plan), plan
