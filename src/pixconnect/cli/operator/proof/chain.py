"""``pixconnect verify heads`` and ``pixconnect verify entry``: what chains have come to, and that of entries is made of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from cyclopts import App

from pixconnect.cli.frame import output, terminal
from pixconnect.cli.frame.exit_status import ExitStatus
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.operating import TheHolder, run_with_settings
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.config import Settings
from pixconnect.domain.proof.chain import ChainedEntry, ChainHead, format_heads, parse_heads
from pixconnect.named_file import read_named_file
from pixconnect.usecases.proof import chain as chain_usecases

_LENGTH_MAX: Final = 1 << 30
"""Of a file of heads, in octets: a line for each of some million holders."""

heads_app = App(name="heads", help="What the chains have come to.")


@heads_app.command
def write(file: Path | None = None, *, json: Json = False) -> None:
    """Write the last head of each chain to a new file, to be kept where nobody who writes the database can.

    Args:
        file: Where to; a file that is there is never written over. Without one, the lines go to standard output.
    """
    heads = run_with_settings(_list_heads)
    if file is None:
        terminal.say(format_heads(heads).decode().removesuffix("\n"))
        return
    try:
        with file.open("xb") as opened:
            opened.write(format_heads(heads))
            # Who deletes the database's own copy next relies on this one.
            opened.flush()
            os.fsync(opened.fileno())
    except FileExistsError:
        raise CommandError(f"{file}: is there already; heads are written to a new file") from None
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror or error}") from None
    output.show(dict(file=str(file), holders=sum(head.chain is None for head in heads)), as_json=json)


async def _list_heads(settings: Settings) -> list[ChainHead]:
    from pixconnect.assembly import proof  # noqa: PLC0415  it imports everything; help and wrong options need not

    async with proof.open_book_reader(settings) as reader:
        return await chain_usecases.list_heads(reader.connection)


def read_heads(files: Sequence[Path]) -> list[ChainHead]:
    """All heads of some files."""
    heads = list[ChainHead]()
    for file in files:
        try:
            heads += parse_heads(read_named_file(file, _LENGTH_MAX).splitlines())
        except OSError as error:
            raise CommandError(f"--heads: {file}: {error.strerror or error}") from None
    return heads


def entry(entry_id: Annotated[int, WHOLE_NUMBER], *, holder_id: TheHolder, json: Json = False) -> None:
    """Show an entry with all that its place in the chain is made of; the exit status is 7 where one does not follow.

    Args:
        entry_id: The entry.
    """

    async def look(settings: Settings) -> ChainedEntry:
        from pixconnect.assembly import proof  # noqa: PLC0415  as above

        async with proof.open_book_reader(settings) as reader:
            return await chain_usecases.show_entry(reader.connection, entry_id, holder_id)

    found = run_with_settings(look)
    shown = dict(
        holder_id=found.holder_id,
        entry_id=found.entry_id,
        facts=found.facts,
        person=found.person,
        salt=_hex(found.salt),
        person_digest=_hex(found.person_digest),
        digest=found.digest.hex(),
        link=found.position,
        place=found.place,
        digests=[digest.hex() for digest in found.digests],
        head_before=_hex(found.head_before),
        head=found.head.hex(),
        chained_at=found.chained_at,
        is_as_chained=found.is_as_chained,
    )
    # There may be thousands, which are for programs.
    if not json:
        shown.pop("digests")
    output.show(shown, as_json=json)
    if not found.is_as_chained:
        raise CommandError("the entry is not as it was chained", status=ExitStatus.BROKEN)


def _hex(octets: bytes | None) -> str | None:
    return None if octets is None else octets.hex()
