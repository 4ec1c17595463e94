"""Who looks at the books: a reader for each cell, of which one that does not answer is named."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager

from msgspec import structs

from pixconnect.cli.frame.cells import CellAnswers, say_why_missing
from pixconnect.config import Settings
from pixconnect.domain.frame.cell import HOME, cell_of_id
from pixconnect.domain.running.known_cell import HOME_NAME
from pixconnect.store.running import cell as cell_store
from pixconnect.usecases.proof.verify import BookReader
from pixconnect.usecases.running.known_cells import find_open_cell


@asynccontextmanager
async def open_readers(settings: Settings) -> AsyncGenerator[CellAnswers[BookReader]]:
    """The reader of each cell's books, the home cell's first, which compares all of them with the rail."""
    from pixconnect.assembly import proof  # noqa: PLC0415  it imports everything; help and wrong options need not
    from pixconnect.assembly.cell_settings import settings_of  # noqa: PLC0415

    missing, found = dict[str, str](), list[tuple[str, BookReader]]()
    async with AsyncExitStack() as opened:
        home = await opened.enter_async_context(proof.open_book_reader(settings))
        known = await cell_store.list_open_cells(home.connection)
        for each in known:
            try:
                reader = await opened.enter_async_context(proof.open_book_reader(settings_of(settings, each), each))
            except Exception as error:  # noqa: BLE001  what a cell refuses, and a defect of ours, is raised
                missing[each.name] = say_why_missing(error)
            else:
                found.append((each.name, reader))
        home = structs.replace(home, others=[reader.connection for _, reader in found])
        if missing:
            why = f"what has settled may be of a cell that does not answer: {', '.join(missing)}"
            home = structs.replace(home, rail=None, why_no_rail=why)
        yield CellAnswers(found=[(HOME_NAME, home), *found], missing=missing, is_alone=not known)


@asynccontextmanager
async def open_reader_of(settings: Settings, holder_id: int) -> AsyncGenerator[BookReader]:
    """The reader of the cell that a holder is in; ``ServiceUnavailable`` if there is no such cell that is open."""
    from pixconnect.assembly import proof  # noqa: PLC0415  as above
    from pixconnect.assembly.cell_settings import settings_of  # noqa: PLC0415

    number = cell_of_id(holder_id)
    async with proof.open_book_reader(settings) as home:
        if number == HOME:
            yield home
            return
        known = find_open_cell(await cell_store.list_all(home.connection), number)
        async with proof.open_book_reader(settings_of(settings, known), known) as there:
            yield there
