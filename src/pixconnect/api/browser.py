"""What a browser may do with our answers: nothing, but show the documentation page and save a statement.

No answer is guessed to be of another type, framed, or told to others as the page somebody came from.
"""

from typing import Final

POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"
"""Of everything that is for programs."""
DOCS_POLICY: Final = (
    b"default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
"""Of the documentation: one page with its style in it, and an empty icon."""


def safe_headers(base_url: str) -> list[tuple[str, str]]:
    """What every answer says to browsers, also one that is no answer of the application.

    Args:
        base_url: Ours, as callers see it. Only behind https may a browser be told to come by nothing else.
    """
    headers = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    if base_url.lower().startswith("https://"):
        headers.append(("strict-transport-security", "max-age=31536000"))
    return headers
