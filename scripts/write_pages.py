"""Write the generated files; ``make docs`` runs it.

They are pages of ``docs/reference``, the shape of the tables, a dashboard, and the generated part of the TypeScript
client. ``tests/repository/test_reference.py``, ``tests/kernel/test_schema.py`` and
``tests/client/typescript/test_contract.py`` fail if one is out of date.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import asyncpg

from bench.pages import figures, request_costs
from pixconnect.features.proof.tables.shape import FILE_NAME, read_shape, write_shape
from scripts.pages import (
    catalogue,
    clients,
    command_line,
    dashboard,
    events,
    faces,
    failover,
    metrics,
    personal_data,
    proof,
    rules,
    schema,
    settings,
    typescript,
)

MEND = "the page is not what the program says now: run `make docs`"
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "clients.md": clients.write_page,
    "cli.md": command_line.write_page,
    "faces.md": faces.write_page,
    "failover.md": failover.write_page,
    "figures.md": figures.write_page,
    "http.md": request_costs.write_page,
    "metrics.md": metrics.write_page,
    "personal-data.md": personal_data.write_page,
    "proof.md": proof.write_page,
    "rules.md": rules.write_page,
    "settings.md": settings.write_page,
}
EVENTS = "events.md"
"""Written separately: its events are caused on a database."""
SHAPE = Path(__file__).resolve().parents[1] / "src/pixconnect/features/proof/tables" / FILE_NAME


def main() -> None:
    """Write them all."""
    for name, write_page in PAGES.items():
        (REFERENCE / name).write_text(write_page(), encoding="utf-8")
    for path, text in typescript.write_files().items():
        path.write_text(text, encoding="utf-8")
    dashboard.FILE.write_text(dashboard.render_dashboard(), encoding="utf-8")
    asyncio.run(_write_from_a_database())


async def _write_from_a_database() -> None:
    async with events.open_database() as database:
        for path, text in (await write_tables(database.owner_url)).items():
            path.write_text(text, encoding="utf-8")
        page = events.write_page(await events.make_examples(database))
        (REFERENCE / EVENTS).write_text(page, encoding="utf-8")


async def write_tables(owner_url: str) -> dict[Path, str]:
    """The files about the tables of a migrated database: their shape, the page, and its drawings."""
    schemas = [await catalogue.read_migrated(owner_url, name) for name in catalogue.SCHEMAS]
    drawings = schema.draw(schemas)
    return {
        SHAPE: await _write_shape(owner_url),
        REFERENCE / schema.PAGE: schema.write_page(schemas),
        **{REFERENCE / schema.DRAWINGS / name: drawing for name, drawing in drawings.items()},
    }


async def _write_shape(owner_url: str) -> str:
    connection = await asyncpg.connect(owner_url, server_settings=dict(search_path="pixconnect"))
    try:
        return write_shape(await read_shape(connection))
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
