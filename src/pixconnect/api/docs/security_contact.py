"""Whom to tell of a weakness: ``/.well-known/security.txt``.

Source: RFC 9116, sections 2.5 and 3.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import Anything, Nothing, Request
from pixconnect.api.frame.services import Services
from pixconnect.domain.frame import errors

PATH: Final = "/.well-known/security.txt"
MEDIA_TYPE: Final = "text/plain; charset=utf-8"
# RFC 9116 recommends less than a year. It is true for as long as the operator lets the service say so.
_VALID: Final = timedelta(days=180)


async def get_security_contacts(services: Services, request: Request[None, Anything, Nothing]) -> Document:
    """Read whom to tell of a weakness."""
    if not services.security_contacts:
        raise errors.NotFound("the operator names nobody here")
    expires_at = services.context.clock.real_now() + _VALID
    lines = [
        *(f"Contact: {contact}" for contact in services.security_contacts),
        f"Expires: {expires_at:%Y-%m-%dT00:00:00Z}",
        "Preferred-Languages: pt, en",
        f"Canonical: {services.base_url}{PATH}",
    ]
    return Document(content="".join(f"{line}\n" for line in lines).encode(), media_type=MEDIA_TYPE)
