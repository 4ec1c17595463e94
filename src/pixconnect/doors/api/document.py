"""Answers other than our JSON; documents that are the same for every caller are cached.

Each form of such a document is made at its first request, packed if requested, and stays for the life of the process. There are
no more of them than pages, so none is evicted.

Headers for browsers limit the use of our answers: show the documentation, save a statement, and no more. Browsers must not
guess another type, frame an answer, or send the page's address to other sites.
"""

import gzip
import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from functools import cached_property
from typing import Final

from msgspec import Struct

from pixconnect.doors.api.envelope import Headers

PDF_TYPE: Final = "application/pdf"

POLICY: Final = b"default-src 'none'; frame-ancestors 'none'"  # for every answer to programs
STRICT_TRANSPORT: Final = ("strict-transport-security", "max-age=31536000")
"""Use https only, for a year: sent with answers over https."""


def safe_headers(base_url: str) -> list[tuple[str, str]]:
    """Return the headers for browsers of every answer at this address, including the server's own."""
    headers = [("x-content-type-options", "nosniff"), ("referrer-policy", "no-referrer")]
    # A browser that got this over http could not return to a service without https.
    if base_url.lower().startswith("https://"):
        headers.append(STRICT_TRANSPORT)
    return headers


MAX_AGE_S: Final = 300
"""How long a cache may answer without revalidation. Only an upgrade changes these documents."""
_NOT_MODIFIED: Final = 304
_TAG_OCTETS: Final = 16
# ``gzip;q=0`` refuses it (RFC 9110, 12.5.3), and ``x-gzip`` is its old name.
_TAKES_GZIP: Final = re.compile(rb"(?:^|,)\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*(?:,|$))[\d.]+\s*)?(?:,|$)", re.IGNORECASE)
_ACCEPT_ENCODING_MAX: Final = 256
"""In octets: no client sends a longer one, and searching one as long as a head costs ten times as much as the rest."""


class Document(Struct, frozen=True, kw_only=True):
    """An answer other than our JSON."""

    content: bytes | AsyncIterator[bytes]  # the body; in parts, it is sent in chunks without a length
    media_type: str
    filename: str = ""  # the name under which a browser saves it; empty if it may be shown
    policy: bytes = POLICY  # ``Content-Security-Policy``
    encoding: str = ""  # the body's encoding, which its reader accepts
    caching: Headers | None = None  # headers for caches; ``None`` forbids caching
    status: int = 200  # 304 has no body: the caller has it already


class _Form(Struct, frozen=True, kw_only=True):
    """One sequence of octets, and its answers."""

    tag: bytes
    whole: Document
    unchanged: Document  # for a caller that names the tag in ``If-None-Match``


class KeptDocument:
    """A document, plain and packed.

    Args:
        policy: ``Content-Security-Policy``.
        is_packed: Whether a caller that accepts gzip gets it: pictures are packed already.
    """

    def __init__(self, content: bytes, media_type: str, policy: bytes = POLICY, *, is_packed: bool = True) -> None:
        self.content = content
        self._media_type = media_type
        self._policy = policy
        self._is_packed = is_packed

    def answer(self, headers: Mapping[bytes, bytes]) -> Document:
        """Return the form that the caller accepts; without a body if the caller has it already.

        All of it is public, so its packed length reveals nothing.
        """
        accepted = headers.get(b"accept-encoding", b"")
        takes_gzip = len(accepted) <= _ACCEPT_ENCODING_MAX and _TAKES_GZIP.search(accepted) is not None
        form = self._packed if self._is_packed and takes_gzip else self._plain
        known = headers.get(b"if-none-match")
        # A proxy that packs the answer itself makes the tag weak (W/"..."), and a list may name several (RFC 9110, 13.1.2).
        if known is not None and (form.tag in known or known == b"*"):
            return form.unchanged
        return form.whole

    @cached_property
    def _plain(self) -> _Form:
        return self._make_form(self.content, "")

    @cached_property
    def _packed(self) -> _Form:
        # Without an instant the same document has the same octets, and so the same tag, in every process.
        return self._make_form(gzip.compress(self.content, mtime=0), "gzip")

    def _make_form(self, content: bytes, encoding: str) -> _Form:
        tag = b'"%b"' % hashlib.blake2b(content, digest_size=_TAG_OCTETS).hexdigest().encode()
        caching = [(b"cache-control", b"public, max-age=%d" % MAX_AGE_S), (b"etag", tag)]
        if self._is_packed:
            caching.append((b"vary", b"accept-encoding"))
        whole = Document(content=content, media_type=self._media_type, policy=self._policy, encoding=encoding, caching=caching)
        unchanged = Document(
            content=b"", media_type=self._media_type, policy=self._policy, caching=caching, status=_NOT_MODIFIED
        )
        return _Form(tag=tag, whole=whole, unchanged=unchanged)
