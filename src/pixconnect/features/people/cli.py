"""``pixconnect person``: answer a person's request for their data, or for its erasure."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import msgspec
from cyclopts import App, Parameter
from msgspec import structs

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.features.people import service as person_usecases
from pixconnect.features.people.service import ErasedRow, Erasure
from pixconnect.kernel.flows.context import Operator
from pixconnect.platform.base.clock import format_local
from pixconnect.platform.environment import read_named_file

app = App(name="person", help="Personal data, for answering people's requests.")

TaxId = Annotated[str, Parameter(help="The person's CPF or CNPJ, with its mask or without.")]
NoteFile = Annotated[Path, Parameter(help="The file of erased rows: ids alone, and no person.")]

_NOTES_OCTETS_MAX: Final = 64 * 1024 * 1024
_encode = msgspec.json.Encoder().encode
_decode_note = msgspec.json.Decoder(ErasedRow).decode


@app.command
def export(*, tax_id: TaxId, file: Path | None = None, json: Json = False) -> None:
    """Write all data about a person, one JSON object a line, as it is read.

    Each line has its kind, the rule of the register of personal data that keeps it, and until when.

    Args:
        file: A new file, which only you can read. Without one, the lines go to standard output.
    """
    # Written line by line as it is read: a person may be in more rows than fit in memory.
    if file is None:
        operating.run(_write_lines, tax_id, terminal.print_line)
        return
    with _open_private(file) as opened:

        def add(line: str) -> None:
            opened.write(line.encode() + b"\n")

        try:
            count = operating.run(_write_lines, tax_id, add)
        except BaseException:
            # A part would be handed over as the whole, and the file's name could not be used again.
            file.unlink()
            raise
    output.show({"file": str(file), "lines": count}, as_json=json)


async def _write_lines(context: Operator, tax_id: str, write: Callable[[str], None]) -> int:
    count = 0
    async with aclosing(person_usecases.export_person(context, tax_id)) as lines:
        async for line in lines:
            write(output.to_json(line))
            count += 1
    return count


def _open_private(file: Path) -> BinaryIO:
    try:
        # Created with owner-only permissions by one call: an existing file may be readable by others, or a link.
        return os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except OSError as error:
        raise CommandError(f"--file: {file}: {error.strerror}; nothing was written") from None


@app.command
def erase(
    *,
    tax_id: TaxId | None = None,
    note: NoteFile | None = None,
    again: NoteFile | None = None,
    yes: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Erase a person's texts that no rule keeps; print what stays, why and until when, and earlier receivers.

    Books, their chain and recorded heads stay valid. Erased texts do not come back.

    Args:
        tax_id: The requesting person's.
        note: A file, kept with the backups, to which every row is added before it is erased.
        again: Instead: erase the rows in this file once more, in a restored database.
        yes: Do not ask.
    """
    if (again is None) == (tax_id is None):
        raise CommandError("--tax-id: name a person, or a file of notes by --again, and not both")
    if again is not None:
        notes = _read_notes(again)
        done = operating.run(person_usecases.erase_again, notes)
        output.show({"erased": done}, as_json=json)
        return
    if tax_id is None or note is None:
        raise CommandError("--note: name a file, or erased data comes back unnoticed with a restored backup")
    # The number is checked before the confirmation, so that a wrong one is not typed twice.
    _ask(person_usecases.read_tax_id(tax_id), is_agreed=yes)
    # Opened before anything is read: an unwritable file is detected before the first row is emptied.
    with _open_notes(note) as file:
        operating.run(person_usecases.check_erasable, tax_id)
        erasure = operating.run(person_usecases.erase_person, tax_id, lambda notes: _write_notes(file, notes))
    _show(erasure, as_json=json)


def _ask(tax_id: str, *, is_agreed: bool) -> None:
    if is_agreed:
        return
    if not terminal.is_terminal(sys.stdin):
        raise CommandError("--yes: required without a terminal; nothing was erased")
    terminal.notice("What no rule keeps of this person is emptied for good. Type the CPF or CNPJ once more:")
    if person_usecases.read_tax_id(sys.stdin.readline()) != tax_id:
        raise CommandError("that is another one: nothing was erased")


def _open_notes(path: Path) -> BinaryIO:
    try:
        # Appended: one file may have the notes of every request, and `--again` reads all of it.
        return path.open("ab")
    except OSError as error:
        raise CommandError(f"--note: {path}: {error.strerror}; nothing was erased") from None


def _write_notes(file: BinaryIO, notes: Sequence[ErasedRow]) -> None:
    file.write(b"".join(_encode(note) + b"\n" for note in notes))
    file.flush()
    # Durable before anything is erased: a restore may come at any time.
    os.fsync(file.fileno())


def _read_notes(path: Path) -> list[ErasedRow]:
    try:
        content = read_named_file(path, _NOTES_OCTETS_MAX)
    except OSError as error:
        raise CommandError(f"--again: {path}: {error.strerror}; nothing was erased") from None
    notes = list[ErasedRow]()
    for number, line in enumerate(content.splitlines(), 1):
        try:
            notes.append(_decode_note(line))
        except msgspec.MsgspecError as error:
            # Refused as a whole, by line number. A crash may have cut off the last line: its batch was never erased.
            raise CommandError(f"--again: {path}: line {number}: {error}; nothing was erased") from None
    return notes


def _show(erasure: Erasure, *, as_json: bool) -> None:
    shown: Shown = {
        "erased": erasure.erased,
        "stays": [structs.asdict(stays) for stays in erasure.stays],
        "receivers": [structs.asdict(endpoint) for endpoint in erasure.receivers],
        "exported_at": sorted(erasure.exported_at),
    }
    if as_json:
        output.show(shown, as_json=True)
        return
    output.show({"erased": shown["erased"]}, as_json=False)
    for title, items in (("What stays", shown["stays"]), ("Receivers that have it", shown["receivers"])):
        terminal.print_line("")
        terminal.print_line(f"{title}:")
        output.show_list(title, items, as_json=False)
    for at in shown["exported_at"]:
        terminal.print_line(f"Written out before, by `person export`: {format_local(at)}")
    terminal.notice("Statements that holders have downloaded are theirs: this service has no list of the copies.")
