"""``python -m pixconnect.running.template``: the cluster with the sandbox's empty tables, which new homes copy.

``make environment`` makes it beside the installed program. Without it, and for every other installation, a first start makes
its tables by ``initdb`` and the baseline.

A first start looks for it before everything else, so only the making imports what reads SQL and speaks to a server.
"""

import asyncio
import os
import shutil
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Final

from pixconnect.platform.config import POSTGRES_NEWEST, PostgresVersion
from pixconnect.platform.local import cluster_template
from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from pixconnect.platform.local.home import closed_mode
from pixconnect.platform.local.postgres_placement import INITDB_OPTIONS, PostgresUnavailableError

_FOLDER: Final = Path(sys.prefix) / "share" / "pixconnect"
_TIDY: Final = """
    select 'vacuum (analyze, freeze) ' || string_agg(oid::regclass::text, ', ')
    from pg_class where relnamespace = 'pg_catalog'::regnamespace and relkind = 'r'
"""
"""Not our tables: PostgreSQL plans for an empty one that was vacuumed as if it stayed empty, and sessions keep their plans."""
_UNUSED: Final = (
    "drop database postgres",
    "update pg_database set datistemplate = false where datname = 'template0'",
    "drop database template0",
)
"""A third of all files. Programs that look for ``postgres`` take ``template1`` instead, and a sandbox has only one database."""


def find(version: PostgresVersion) -> Path | None:
    """The template of these tables and this PostgreSQL, if there is one."""
    template = _place(version)
    return template if template.is_dir() else None


def _place(version: PostgresVersion) -> Path:
    # Faster than ``rglob``.
    found = os.walk(Path(__file__).parents[1])
    files = sorted(Path(folder, name) for folder, _, names in found for name in names if name.endswith(".sql"))
    how = [version, *INITDB_OPTIONS, _TIDY, *_UNUSED]
    parts = [" ".join(how).encode(), *(file.read_bytes() for file in files)]
    return _FOLDER / f"tables-{sha256(b'|'.join(parts)).hexdigest()[:16]}"


def main() -> None:
    """Make the template, unless it is there, and remove those of other tables."""
    template = _place(POSTGRES_NEWEST)
    if template.is_dir():
        return
    shutil.rmtree(_FOLDER, ignore_errors=True)
    _FOLDER.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="pixconnect-tables-", ignore_cleanup_errors=True) as home:
        Path(home).chmod(closed_mode())
        cluster_template.keep(asyncio.run(_make(Path(home))), template)


async def _make(home: Path) -> Path:
    import asyncpg  # noqa: PLC0415 - see above

    from pixconnect.platform import migrations, privileges  # noqa: PLC0415 - see above
    from pixconnect.running.migrate import SCHEMAS, SERVICE_SCHEMA  # noqa: PLC0415 - see above

    # What is not durable is so once the template is complete.
    postgres = EmbeddedPostgres(home, durable=False)
    await postgres.start()
    try:
        connection = await asyncpg.connect(postgres.owner_url)
        await privileges.make_roles(connection, with_sandbox=True)
        for schema, read, _ in SCHEMAS:
            await migrations.migrate(connection, schema, read())
        await privileges.grant_reading(connection, SERVICE_SCHEMA)
        await connection.execute(await connection.fetchval(_TIDY))
        for statement in _UNUSED:
            await connection.execute(statement)
        await connection.close()
    finally:
        await postgres.stop(timeout_s=60)
    return postgres.data_folder


if __name__ == "__main__":
    try:
        main()
    except (OSError, PostgresUnavailableError) as error:
        sys.exit(f"no template: {error}")
