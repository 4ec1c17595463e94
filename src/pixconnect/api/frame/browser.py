"""Headers that tell browsers what they may do with our answers: show the documentation page, save a statement, and no more.

Browsers must not guess another type, frame an answer, or tell other sites the address of the page.
"""

from typing import Final

POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"
"""For every answer that is for programs."""
DOCS_POLICY: Final = (
    b"default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
"""For the documentation: its own style sheet, script and pictures, and an empty icon."""
TRYING_POLICY: Final = DOCS_POLICY + b"; connect-src 'self'"
"""For the documentation in a sandbox, from which requests may be sent to this very service."""
STRICT_TRANSPORT: Final = ("strict-transport-security", "max-age=31536000")
"""Come back by https only, for a year: sent with answers over https."""


def safe_headers(base_url: str) -> list[tuple[str, str]]:
    """The headers for browsers of every answer of the service at this address, those of the server itself included."""
    headers = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    # A browser that got this over http would never come back to a service that has no https.
    if base_url.lower().startswith("https://"):
        headers.append(STRICT_TRANSPORT)
    return headers
