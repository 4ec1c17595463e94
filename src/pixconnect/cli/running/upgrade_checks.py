"""What ``doctor --upgrade`` says before ``migrate``: rows that this version refuses, migrations that it will run.

It runs the new program against the old tables, beside the old program, and cannot write: its session is read only.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final

import asyncpg

from pixconnect.cli.frame import failures, symptoms
from pixconnect.cli.frame.settings import complaining_of_home, read_database_settings
from pixconnect.cli.frame.symptoms import Symptom
from pixconnect.cli.running.migrate import SCHEMAS, find_offending, refuse_old_server
from pixconnect.config import Settings
from pixconnect.foundation import migrations, pool, schema_history
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.migrations import Migration
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.installation import check_durability, refuse_other_mode, refuse_spread

_UPGRADE: Final = "upgrade"
_FORMS: Final = {form.removeprefix("--").strip() for form in (migrations.OUTSIDE_A_TRANSACTION, migrations.IN_BATCHES)}
"""What the first line of a step may say of how it runs."""


def look() -> Iterator[Symptom]:
    try:
        settings = read_database_settings()
        set_up_logging(settings.log_format, "error")
        with complaining_of_home(settings):
            yield from asyncio.run(_look(settings))
    except Exception as error:
        explained = _explain(error)
        if not explained:
            raise
        yield from explained


def _explain(error: Exception) -> list[Symptom]:
    """What an operator can mend; nothing of a defect of ours, which keeps its traceback."""
    line = failures.explain(error)
    return [] if line is None else [symptoms.split(_UPGRADE, line)]


async def _look(settings: Settings) -> list[Symptom]:
    # Only who owns the tables may read all of their history.
    url = settings.owner_database_url or settings.operators_url
    connection = await pool.connect(url, role=None, schema="pixconnect", name="pixconnect doctor")
    try:
        await connection.execute("set default_transaction_read_only = on")
        await refuse_old_server(connection)
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        await refuse_spread(connection)
        await check_durability(connection, settings.mode)
        found = [symptom async for symptom in _look_at_schemas(connection, settings)]
        return [*found, *await _look_at_rows(connection)]
    finally:
        await connection.close()


async def _look_at_schemas(connection: asyncpg.Connection, settings: Settings) -> AsyncGenerator[Symptom]:
    for schema, package, _ in SCHEMAS:
        # As for `migrate`: a live database has no tables of the simulated network.
        if schema == "sandbox" and settings.mode != "sandbox":
            continue
        await connection.execute(f"set search_path = {schema}")
        steps = migrations.read_migrations(package)
        # An earlier version had fewer schemas.
        is_there = await connection.fetchval("select to_regnamespace($1) is not null", schema)
        missing = await schema_history.list_missing(connection, schema, steps) if is_there else steps
        for step in missing:
            yield symptoms.note(
                _UPGRADE,
                f"`migrate` will run {schema} {step.version:04d} {step.name}: {_describe(step)}",
                _advise(step),
            )
        if not missing:
            yield symptoms.ok(_UPGRADE, f"the tables of {schema} are this version's")


async def _look_at_rows(connection: asyncpg.Connection) -> list[Symptom]:
    await connection.execute(f"set search_path = {SCHEMAS[0][0]}")
    return [
        symptoms.wrong(
            _UPGRADE,
            f"rows of {each.rule.table} that break a rule of this version: {each.rows_count}, the first is {row_id} of holder "
            f"{holder_id}. The rule: {each.rule.says}",
            "put them right, or run `pixconnect migrate --keep-offending`, which lists them and holds the rule for all others",
        )
        for each in await find_offending(connection)
        for row_id, holder_id in each.shown[:1]
    ]


def _describe(step: Migration) -> str:
    """Its first sentence, which says what the step is for."""
    lines = (line.removeprefix("--").strip() for line in step.sql.splitlines() if line.startswith("--"))
    told = " ".join(line for line in lines if line and line not in _FORMS)
    sentence, stop, _ = told.partition(". ")
    return f"{sentence}." if stop else told or "changes without a description"


def _advise(step: Migration) -> str:
    if step.is_outside_transaction or step.is_in_batches:
        return "takes as long as reading the tables concerned; no request waits for it, and you may interrupt and repeat it"
    return "takes moments, in one transaction, once no other transaction holds its tables"
