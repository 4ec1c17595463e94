"""Writes what is made from the program itself: pages of ``docs/reference``, and each ``schema.sql``. ``make docs`` runs it.

``tests/repository/test_reference.py`` and ``tests/store/test_schema.py`` fail while one is not what is written here.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bench.pages import figures, request_costs
from scripts.pages import catalogue, command_line, events, faces, interface, metrics, schema, schema_sql, settings

MEND = "the page is not what the program says now: run `make docs`"
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "api.md": interface.write_page,
    "cli.md": command_line.write_page,
    "faces.md": faces.write_page,
    "figures.md": figures.write_page,
    "http.md": request_costs.write_page,
    "metrics.md": metrics.write_page,
    "settings.md": settings.write_page,
}
EVENTS = "events.md"
"""Written apart from the others: events are caused on a database."""


def main() -> None:
    """Write them all."""
    for name, write_page in PAGES.items():
        (REFERENCE / name).write_text(write_page(), encoding="utf-8")
    figures.write()
    asyncio.run(_write_from_a_database())


async def _write_from_a_database() -> None:
    async with events.open_database() as database:
        for path, text in (await write_tables(database.owner_url)).items():
            path.write_text(text, encoding="utf-8")
        page = events.write_page(await events.make_examples(database))
        (REFERENCE / EVENTS).write_text(page, encoding="utf-8")


async def write_tables(owner_url: str) -> dict[Path, str]:
    """What is said of the tables of a migrated database: each ``schema.sql``, the page, and its drawings."""
    schemas = [await catalogue.read_migrated(owner_url, name) for name in schema_sql.PACKAGES]
    drawings = schema.draw(schemas)
    return {
        **{schema_sql.path_of(found.name): schema_sql.write_schema(found) for found in schemas},
        REFERENCE / schema.PAGE: schema.write_page(schemas),
        **{REFERENCE / schema.DRAWINGS / name: drawing for name, drawing in drawings.items()},
    }


if __name__ == "__main__":
    main()
