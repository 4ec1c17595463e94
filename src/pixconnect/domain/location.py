"""The port to what outside institutions serve behind their dynamic QR codes."""

from datetime import datetime
from typing import Literal, Protocol

from msgspec import Struct


class LocationUnreachable(Exception):  # noqa: N818  it is not our error
    """No address, no connection, no answer in time, or an error on the other side: it may work later."""


class OutsideCharge(Struct, frozen=True, kw_only=True):
    """What an outside institution asks for, once its signature has been verified.

    Attributes:
        txid: The charge's name, 1 to 35 characters.
        key: Whom to pay; not yet normalised.
        amount_cents: What must be paid; ``None`` takes any amount.
        status: ``ATIVA`` can be paid.
        expires_at: From this instant on it cannot be paid; ``None`` where nothing says so.
    """

    txid: str
    key: str
    amount_cents: int | None
    status: Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]
    expires_at: datetime | None


class Locations(Protocol):
    """Reads locations under the address rules of webhooks, within 5 s to connect, 10 s in all and 64 KiB."""

    async def read(self, location: str) -> OutsideCharge:
        """Fetch and verify what a location serves.

        Args:
            location: Host and path, without a scheme.

        Raises:
            InvalidQrCode: A forbidden address, an answer of 4xx, or a payload whose form or signature fails.
            LocationUnreachable: It could not be fetched.
        """
        ...
