"""A connection whose exchanges are shown to whoever records them, as they were; redacting them is the reader's work."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial

from pixconnect.adapters.institutions.connection import (
    AnswerLost,
    CallBounds,
    InstitutionConnection,
    InstitutionHost,
    NoConnection,
)
from pixconnect.domain.institutions.recording import TakenExchange
from pixconnect.http.client import ReceivedAnswer


class RecordedConnection(InstitutionConnection):
    """Kept connections as any account's."""

    def __init__(self, tls: ssl.SSLContext, bounds: CallBounds, *, note: Callable[[TakenExchange], None]) -> None:
        super().__init__(tls, bounds)
        self._note = note

    async def exchange(
        self,
        host: InstitutionHost,
        request: bytes,
        body_max: int,
        *,
        is_new: bool = False,
        exchange_s: float | None = None,
    ) -> ReceivedAnswer:
        head, _, sent = request.partition(b"\r\n\r\n")
        method, target, _ = head.partition(b"\r\n")[0].decode("ascii").split(" ")
        asked = partial(
            TakenExchange,
            method=method,
            target=target.removeprefix(host.prefix),
            authorization=_find_authorization(head),
            sent=sent,
        )
        try:
            answer = await super().exchange(host, request, body_max, is_new=is_new, exchange_s=exchange_s)
        except (NoConnection, AnswerLost) as error:
            self._note(asked(failure=f"{type(error).__name__}: {error}"))
            raise
        media_type = answer.headers.get("content-type", "")
        self._note(asked(status=answer.status_code, media_type=media_type, content=answer.body))
        return answer


def _find_authorization(head: bytes) -> str:
    for line in head.decode("ascii").split("\r\n"):
        name, _, value = line.partition(": ")
        if name == "Authorization":
            return value
    return ""
