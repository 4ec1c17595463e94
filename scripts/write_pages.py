"""Write the generated files; ``make docs`` runs it.

Most are pages of ``docs/reference``, which are not committed: the site is built with its own copy. The others are: the
shape of the tables, tables in ``http.md``, ``api.md``, ``errors.md`` and ``access.md``, a dashboard, the generated part of the
TypeScript client, and the records of the Python client.
``tests/repository/test_reference.py``, ``tests/kernel/test_schema.py``, ``tests/scripts/test_dashboard.py``,
``tests/scripts/test_interface.py`` and both ``test_contract.py`` of ``tests/client`` fail if one is out of date.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bench.pages import HTTP, write_figures, write_request_costs
from scripts.pages import (
    clients,
    command_line,
    dashboard,
    events,
    faces,
    interface,
    metrics,
    personal_data,
    proof,
    python_client,
    rules,
    schema,
    settings,
    typescript,
)

REFERENCE = schema.ROOT / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "clients.md": clients.write_page,
    "cli.md": command_line.write_page,
    "faces.md": faces.write_page,
    "figures.md": write_figures,
    "metrics.md": metrics.write_page,
    "personal-data.md": personal_data.write_page,
    "proof.md": proof.write_page,
    "rules.md": rules.write_page,
    "settings.md": settings.write_page,
}
EVENTS = "events.md"  # its events are caused on a database


async def write_all() -> None:
    async with events.open_database() as database:
        await _write_into(REFERENCE, database.owner_url, await events.make_examples(database))
        schema.SHAPE.write_text(await schema.describe_shape(database.owner_url), encoding="utf-8")
    committed = {dashboard.FILE: dashboard.render_dashboard(), HTTP: write_request_costs(), **interface.write_pages()}
    for path, text in (committed | python_client.write_files() | typescript.write_files()).items():
        path.write_text(text, encoding="utf-8")


async def write_reference(folder: Path) -> None:
    """Write the pages that are not committed into a folder."""
    async with events.open_database() as database:
        await _write_into(folder, database.owner_url, await events.make_examples(database))


async def _write_into(folder: Path, owner_url: str, examples: dict[str, str]) -> None:
    (folder / schema.DRAWINGS).mkdir(parents=True, exist_ok=True)
    pages = {name: write_page() for name, write_page in PAGES.items()}
    pages |= {EVENTS: events.write_page(examples), **await schema.write_tables(owner_url)}
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write_all())
