"""``pixconnect institution rehearse``: all that receiving asks, once, where no money of anybody moves."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.failures import CommandError, ExitStatus
from pixconnect.cli.frame.output import Json, Shown
from pixconnect.cli.operator.institution_opening import AccountName, make_opener
from pixconnect.domain.institutions.recording import RehearsalRecording, TakenExchange
from pixconnect.usecases.institutions import rehearsal as rehearsal_usecases


def rehearse(name: AccountName, *, record: Path | None = None, json: Json = False) -> None:
    """Walk through all that receiving asks there, in the institution's tests or at a counterpart; says what differs.

    It opens a charge and removes it, and returns one cent, under one id twice, where `institution allow --refunds` allows it
    and something came in. It ends with 5 where anything differs from the profile.

    Args:
        record: A new file: what was said, without secrets, documents and names. Read it before you pass it on.
    """
    if record is not None and record.exists():
        raise CommandError(f"{record}: is there already; name another file")
    taken = list[TakenExchange]()
    opener = make_opener(taken.append)
    found = operating.run(rehearsal_usecases.rehearse, opener, taken, name)
    if record is not None:
        _write(record, found.recording)
    rows: list[Shown] = [dict(step=one.step, outcome=one.outcome, text=one.text or None) for one in found.steps]
    output.show_list("steps", rows, as_json=json)
    if found.differs_count:
        raise CommandError(
            f"{found.differs_count} differ from what the profile says of the institution", status=ExitStatus.ENDED_BADLY
        )


def _write(file: Path, recording: RehearsalRecording) -> None:
    try:
        with file.open("xb") as opened:
            file.chmod(0o600)
            opened.write(msgspec.json.format(msgspec.json.encode(recording), indent=2) + b"\n")
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror}") from None
