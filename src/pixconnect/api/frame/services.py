"""What the interface needs to do its work; ``assembly`` fills it in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from pixconnect.api.frame.document import KeptDocument
from pixconnect.api.frame.rates import RequestRates
from pixconnect.domain.identity.access import Network
from pixconnect.flow.overload import Admission
from pixconnect.flow.turns import Turns
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer
from pixconnect.usecases.institutions.callback import Callbacks
from pixconnect.usecases.running.health import Health
from pixconnect.usecases.running.standby import Standby
from pixconnect.usecases.webhooks.feed import FeedWaits


class Descriptions(Struct, frozen=True, kw_only=True):
    """The interface's description of itself; ``descriptions.describe`` makes it, each part when it is first asked for."""

    openapi: Callable[[], KeptDocument]
    """The OpenAPI document, JSON."""
    openapi_30: Callable[[], KeptDocument]
    """The same as OpenAPI 3.0.3."""
    standard: Callable[[], KeptDocument]
    """The standard's door, OpenAPI 3.0.3."""
    docs: Callable[[], KeptDocument]
    """The page for people, HTML."""
    search: Callable[[], KeptDocument]
    """What the documentation's search looks through, a script."""
    reading: Callable[[], KeptDocument]
    """``llms.txt``, Markdown."""


class Services(Struct, frozen=True, kw_only=True):
    context: Context
    verifier: TokenVerifier
    token_issuer: TokenIssuer
    keys: Keyring
    """Those that are published."""
    read_health: Callable[[], Awaitable[Health]]
    """Answers within 2 s, whatever hangs."""
    read_readiness: Callable[[], Awaitable[Health]]
    """As ``read_health``, but only the checks that decide whether this process should get requests."""
    draw_qr_png: Callable[[str], Awaitable[bytes]]
    """A PNG of this text; callers take turns."""
    feed_waits: FeedWaits
    """Requests that wait for events."""
    callbacks: Callbacks
    """What institutions ring when something came in."""
    admission: Admission
    """Limits the requests under way in this process."""
    turns: Turns
    """Who may use the event loop next."""
    descriptions: Descriptions
    base_url: str
    """The API's address as callers see it."""
    rates: RequestRates | None
    """``None`` where the operator sets no limit."""
    trusted_proxies: tuple[Network, ...]
    """Networks whose ``X-Forwarded-For`` is believed."""
    version: str
    """The program's version."""
    standby: Standby | None = None
    """Where operations read that may be answered from it; ``None`` where there is none."""
    security_contacts: Sequence[str] = ()
    """For whoever finds a weakness: URIs, the preferred one first."""
    shows_system: bool = True
    """Whether the health check says what it runs on."""
    binds_tokens: bool = False
    """Whether there is a port where clients show certificates, to which their tokens are bound."""
