"""No statement looks through all of a table for each row of another, in the plan that a worker makes while both are empty.

A worker's connections keep the plan that they make first, until PostgreSQL has analyzed the tables. Sequential scans are made
dear, so that one is left only where no index can answer.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import pytest

from kernel.test_statements import list_statements
from support.postgres import Addresses

Node = dict[str, Any]

SCANS: Final = {"Seq Scan", "Index Scan", "Index Only Scan", "Bitmap Index Scan"}
SMALL: Final = (
    "clock", "access_revision", "installation", "signing_key", "institution_account", "institution_allowance", "database_loss",
    "event_feed_state", "event_partition", "partition_pass", "worker", "slot_lease", "console_operator", "adjustment", "pg_",
)  # fmt: skip
"""How the names of tables begin that have a row for each account, process, act of operators, or accident of a machine."""

VARIABLE: Final = re.compile(r"""[\w")]\.\w|\$\d""")
"""A condition without a parameter or another table's column is true of as many rows as the table has."""


def list_repeated(node: Node, *, is_repeated: bool = False) -> Iterator[str]:
    """The tables that the plan reads whole, once for each row of another or into a set. The clock has one row."""
    kind = node["Node Type"]
    where = node.get("Relation Name") or node.get("Index Name", "")
    is_chosen = VARIABLE.search(node.get("Index Cond", "")) is not None
    if is_repeated and kind in SCANS and not is_chosen and not where.startswith(SMALL):
        yield f"{kind} on {where}"
    for number, child in enumerate(node.get("Plans", ())):
        is_loop = kind == "Nested Loop" and node["Plans"][0].get("Alias") != "clock"
        is_inner = (is_loop and number == 1) or child.get("Parent Relationship") == "SubPlan"
        yield from list_repeated(child, is_repeated=is_repeated or is_inner)


@pytest.mark.long
async def test_no_statement_reads_a_table_once_for_each_row_of_another(new_database: Addresses) -> None:
    settings = dict(plan_cache_mode="force_generic_plan", enable_seqscan="off", search_path="pixconnect")
    connection = await asyncpg.connect(new_database.owner_url, server_settings=settings, statement_cache_size=0)
    found = dict[str, list[str]]()
    for name, statement in list_statements():
        await connection.execute(f"prepare asked as {statement}")
        count = await connection.fetchval(
            "select cardinality(parameter_types) from pg_prepared_statements where name = 'asked'"
        )
        nulls = f"({', '.join(['null'] * count)})" if count else ""
        plan = json.loads(await connection.fetchval(f"explain (format json, costs off) execute asked{nulls}"))[0]["Plan"]
        await connection.execute("deallocate asked")
        if repeated := [*list_repeated(plan)]:
            found[name] = repeated
    await connection.close()
    assert not found, str(found)
