"""Writes the pages of ``docs/reference`` that are made from the program itself: ``make docs``.

``tests/repository/test_reference.py`` fails while a page is not what is written here.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from scripts.pages import command_line, events, figures, interface, metrics, request_costs, settings

MEND = "the page is not what the program says now: run `make docs`"
REFERENCE = Path(__file__).resolve().parents[1] / "docs" / "reference"

PAGES: dict[str, Callable[[], str]] = {
    "api.md": interface.write_page,
    "cli.md": command_line.write_page,
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
    (REFERENCE / EVENTS).write_text(asyncio.run(events.cause_and_write()), encoding="utf-8")


if __name__ == "__main__":
    main()
