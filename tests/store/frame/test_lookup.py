"""A look-up by a caller's own name costs the same however many holders use that name."""

from __future__ import annotations

import pytest

from pixconnect.store.frame import lookup
from support.service import Service

BY_EXTERNAL_ID = (
    f"select id from transfer where external_id = $1 and holder_id = any ({lookup.family_of('$2::bigint')})"
)
OF_MANY = f"""
    select id from unnest($1::text[], $2::bigint[]) as wanted (external_id, holder_id)
    join transfer on transfer.external_id = wanted.external_id
        and transfer.holder_id = any ({lookup.family_of("wanted.holder_id")})
"""


@pytest.mark.parametrize(("statement", "arguments"), [(BY_EXTERNAL_ID, "'a', 1"), (OF_MANY, "array['a'], array[1]")])
async def test_the_index_finds_the_name_together_with_its_holder(
    service: Service, statement: str, arguments: str
) -> None:
    async with service.context.pool.acquire() as connection, connection.transaction():
        await connection.execute("set local enable_seqscan = off")
        await connection.execute(f"prepare looked_up as {statement}")
        plan = "\n".join(row[0] for row in await connection.fetch(f"explain execute looked_up ({arguments})"))
        await connection.execute("deallocate looked_up")
    condition = next(line for line in plan.splitlines() if "Index Cond" in line and "external_id" in line)
    assert "holder_id = ANY" in condition, plan
