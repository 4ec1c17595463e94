"""The template of new sandboxes."""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from pixconnect.platform.config import POSTGRES_NEWEST
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.home import closed_mode
from pixconnect.running import template

TABLES = ("charge", "transfer", "refund")


def test_sessions_of_a_new_sandbox_plan_for_tables_that_grow(
    home_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(template, "_FOLDER", tmp_path / "made")
    assert template.find(POSTGRES_NEWEST) is None
    template.main()
    assert template.find(POSTGRES_NEWEST) is not None
    home_folder.chmod(closed_mode())
    assert [plan for plan in asyncio.run(plan_in_copy(home_folder)) if not plan.startswith("Index")] == []


async def plan_in_copy(home: Path) -> list[str]:
    told: list[str] = []
    postgres = EmbeddedPostgres(home, durable=False, find_template=template.find, report=told.append)
    await postgres.start()
    try:
        connection = await asyncpg.connect(postgres.owner_url)
        await connection.execute("set plan_cache_mode = force_generic_plan; set search_path = pixconnect")
        for table in TABLES:
            await connection.execute(
                f"prepare a_{table} (bigint, bigint) as select from {table} where id = $1 and holder_id = $2"
            )
        plans = [await connection.fetchval(f"explain execute a_{table} (1, 1)") for table in TABLES]
        await connection.close()
    finally:
        await postgres.stop()
    assert told == []
    return plans
