"""The port to other institutions' locations: what their dynamic QR codes lead to."""

from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct


class LocationUnreachable(Exception):  # noqa: N818  it is not our error
    """No address, no connection, no answer in time, or an error on the other side: a retry may succeed."""


class OutsideCharge(Struct, frozen=True, kw_only=True):
    """A charge of another institution, its signature verified."""

    txid: str
    key: str
    amount_cents: int | None
    """``None`` takes any amount."""
    status: Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]
    """Only ``ATIVA`` can be paid."""
    expires_at: datetime | None
    created_at: datetime | None = None
    """``None`` where it does not say."""
    has_due_date: bool = False
    revision: int = 0
    question: str | None = None


class Locations(Protocol):
    """Reads locations under the address rules of webhooks, within 5 s to connect, 10 s in all and 64 KiB."""

    async def read(self, location: str) -> OutsideCharge:
        """Fetch what a location (host and path, without a scheme) serves, and verify it.

        Raises:
            InvalidQrCode: A forbidden address, an answer of 4xx, or a payload whose form or signature is wrong.
            LocationUnreachable: It could not be fetched.
        """
        ...
