"""Errors with their meanings."""

from collections.abc import Iterator

from pixconnect.doors.api import envelope
from pixconnect.platform.base import errors


def list_errors() -> list[tuple[int, str, str]]:
    """List status, code and meaning of every error, by status."""
    meanings = {kind.code: (kind.__doc__ or "").partition("\n")[0] for kind in _kinds(errors.PixConnectError)}
    return [(status, code, meanings[code]) for code, status in envelope.list_statuses().items()]


def _kinds(kind: type[errors.PixConnectError]) -> Iterator[type[errors.PixConnectError]]:
    # Classes without a code of their own only group others.
    if "code" in vars(kind):
        yield kind
    for below in kind.__subclasses__():
        yield from _kinds(below)
