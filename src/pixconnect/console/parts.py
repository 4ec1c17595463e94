"""What a console process gives its pages."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct
from starlette.responses import Response

from pixconnect.console.exports import Exports
from pixconnect.domain.identity.access import Network
from pixconnect.flow.turns import Turns
from pixconnect.usecases.frame.context import Context, Operator
from pixconnect.usecases.identity.console_session import SignIn
from pixconnect.usecases.institutions.inquiry import InquiryAnswer
from pixconnect.usecases.running.health import HealthWatch
from pixconnect.usecases.running.standby import Standby

_FOLDER: Final = Path(__file__).parent / "assets"
_MEDIA_TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Assets:
    """All files, read when the process starts."""

    def __init__(self) -> None:
        self._answers: dict[str, Response] = {}
        self._addresses: dict[str, str] = {}
        for path in sorted(_FOLDER.iterdir()):
            if path.suffix not in _MEDIA_TYPES:
                continue
            content = path.read_bytes()
            name = f"{path.stem}.{hashlib.blake2b(content, digest_size=6).hexdigest()}{path.suffix}"
            self._addresses[path.name] = f"/assets/{name}"
            self._answers[name] = Response(
                content,
                media_type=_MEDIA_TYPES[path.suffix],
                headers={"cache-control": "public, max-age=31536000, immutable"},
            )

    def address(self, name: str) -> str:
        return self._addresses[name]

    def find(self, name: str) -> Response | None:
        return self._answers.get(name)


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
