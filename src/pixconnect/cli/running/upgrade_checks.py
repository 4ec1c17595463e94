"""What ``doctor --upgrade`` says before ``migrate``: the migrations that it will run.

It runs the new program against the old tables, beside the old program, and cannot write: its session is read only.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterator
from typing import Final

import asyncpg

from pixconnect.cli.frame import failures, symptoms
from pixconnect.cli.frame.settings import complaining_of_home, read_database_settings
from pixconnect.cli.frame.symptoms import Symptom
from pixconnect.cli.running.migrate import refuse_old_server, schemas_of
from pixconnect.config import Settings
from pixconnect.foundation import migrations, pool
from pixconnect.foundation import migrations as schema_history
from pixconnect.foundation.logging import set_up_logging
from pixconnect.foundation.migrations import Migration
from pixconnect.store.running import installation as installation_store
from pixconnect.usecases.running.installation import check_durability, refuse_other_mode

_UPGRADE: Final = "upgrade"
_FORMS: Final = {form.removeprefix("--").strip() for form in (migrations.OUTSIDE_A_TRANSACTION, migrations.IN_BATCHES)}
"""How a step may run, as one of its first lines names it."""
_BEGINS_FROM: Final = re.compile(r"from [0-9a-f]{64}$")


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
        found = [symptom async for symptom in _look_at_schemas(connection, settings)]
        await connection.execute("set search_path = pixconnect")
        refuse_other_mode(await installation_store.find_mode(connection), settings.mode)
        await check_durability(connection, settings.mode)
        return found
    finally:
        await connection.close()


async def _look_at_schemas(connection: asyncpg.Connection, settings: Settings) -> AsyncGenerator[Symptom]:
    for schema, package, _ in schemas_of(settings):
        missing = await schema_history.list_missing(connection, schema, migrations.read_steps(package))
        for step in missing:
            yield symptoms.note(
                _UPGRADE,
                f"`migrate` will run {schema} {step.version:04d} {step.name}: {_describe(step)}",
                _advise(step),
            )
        if not missing:
            yield symptoms.ok(_UPGRADE, f"the tables of {schema} are this version's")


def _describe(step: Migration) -> str:
    """Its first sentence, which states the step's purpose."""
    if step.is_baseline:
        return "makes all tables."
    lines = (line.removeprefix("--").strip() for line in step.sql.splitlines() if line.startswith("--"))
    told = " ".join(line for line in lines if line and line not in _FORMS and not _BEGINS_FROM.match(line))
    sentence, stop, _ = told.partition(". ")
    return f"{sentence}." if stop else told or "changes without a description"


def _advise(step: Migration) -> str:
    if step.is_outside_transaction or step.is_in_batches:
        return "takes as long as reading the tables concerned; no request waits for it, and you may interrupt and repeat it"
    return "takes moments, in one transaction, once no other transaction holds its tables"
