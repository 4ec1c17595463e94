"""The receipt of a transfer or a refund: printed, or as a file of PDF that is written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from pixconnect.cli.frame import records, terminal
from pixconnect.cli.frame.failures import CommandError
from pixconnect_client import Receipt

PdfFile = Annotated[str | None, Parameter(help="Write it to this file as PDF instead.")]


def show_receipt(
    receipt_id: int,
    read: Callable[[int], Receipt],
    read_file: Callable[[int], bytes],
    pdf: str | None,
    *,
    as_json: bool,
) -> None:
    if pdf is None:
        records.show(read(receipt_id), as_json=as_json)
    else:
        _write(Path(pdf), read_file(receipt_id))


def _write(path: Path, content: bytes) -> None:
    # Interrupted, nothing has a name that looks whole.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise CommandError(f"{path}: {error.strerror or error}; nothing was written") from None
    terminal.notice(f"{path}: {len(content):,} octets")
