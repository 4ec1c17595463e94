"""What the interface needs to do its work; whoever assembles a process fills it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from pixconnect.api.authentication import Verifier
from pixconnect.api.rates import RequestRates
from pixconnect.domain.access import Network
from pixconnect.usecases.access import TokenDesk
from pixconnect.usecases.context import Context
from pixconnect.usecases.health import Health
from pixconnect.usecases.signing_key import Keyring


class Descriptions(Struct, frozen=True, kw_only=True):
    """What the interface says of itself; ``openapi.describe`` makes it.

    Attributes:
        openapi: The OpenAPI document, JSON.
        docs: The page for people, HTML.
    """

    openapi: bytes
    docs: bytes


class Services(Struct, frozen=True, kw_only=True):
    """Everything behind the interface.

    Attributes:
        context: For use cases.
        verifier: Knows who a token belongs to.
        token_desk: Gives out tokens.
        keyring: The keys that are published.
        read_health: Collects the health of the service; answers within 2 s.
        draw_qr_png: Draws a QR code, when it is this caller's turn.
        descriptions: Of the interface.
        base_url: The interface's address as callers see it.
        rates: How many requests the operator allows, if there is a limit.
        trusted_proxies: Whose ``X-Forwarded-For`` is believed.
        version: The program's.
        shows_system: Whether the health check tells what runs here.
    """

    context: "Context"
    verifier: Verifier
    token_desk: "TokenDesk"
    keyring: "Keyring"
    read_health: Callable[[], Awaitable[Health]]
    draw_qr_png: Callable[[str], Awaitable[bytes]]
    descriptions: Descriptions
    base_url: str
    rates: RequestRates | None
    trusted_proxies: Sequence[Network]
    version: str
    shows_system: bool = True
