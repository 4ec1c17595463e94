"""What a console process gives its pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from pixconnect.console.assets import Assets
from pixconnect.console.exports import Exports
from pixconnect.domain.identity.access import Network
from pixconnect.flow.turns import Turns
from pixconnect.usecases.frame.context import Context, Operator
from pixconnect.usecases.identity.console_session import SignIn
from pixconnect.usecases.institutions.inquiry import InquiryAnswer
from pixconnect.usecases.running.health import HealthWatch
from pixconnect.usecases.running.standby import Standby


class ConsoleParts(Struct, frozen=True, kw_only=True):
    context: Context
    """With the service's rights: reads, and holders' own acts."""
    operator: Operator
    """With the console's own rights besides: sessions and the audit."""
    sign_in: SignIn
    assets: Assets
    exports: Exports
    turns: Turns
    """Who may use the event loop next."""
    hosts: frozenset[str]
    """The console's host names, with the port. Another name is DNS rebinding, and we refuse it."""
    health: HealthWatch
    draw_qr: Callable[[str], bytes]
    """A QR code as PNG."""
    ask_institution: Callable[[Operator, str, str], Awaitable[InquiryAnswer]]
    """As ``usecases.institutions.inquiry.ask``, at the account of this name."""
    is_secure: bool
    """Whether browsers reach it by https."""
    cookie_name: str
    api_url: str
    auth_url: str
    version: str
    trusted_proxies: Sequence[Network]
    standby: Standby | None = None
    """From which lists, searches, figures and files are read; ``None`` where there is none."""

    @property
    def is_sandbox(self) -> bool:
        return self.context.policy.is_sandbox
