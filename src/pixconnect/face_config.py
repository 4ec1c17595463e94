"""Settings of faces, which ``config.py`` has among all others."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta


@dataclass(frozen=True, kw_only=True)
class FaceSettings:
    """Faces of institutions, and credentials that tests know beforehand."""

    faces: str = ""
    """Comma-separated faces of institutions that get a listener of their own in the sandbox, as ``NAME:PORT``, such as
    ``efi:8101,efi+homologation:8111``; with 0 a free port, and without one the face's usual. It speaks TLS as the institution
    does, by the files of ``tls_certificate_file``. Below ``/faces/NAME`` all of them are served anyway. Never in live mode."""

    face_answers: str = ""
    """Comma-separated choices where no source says what an institution answers, as ``NAME.CHOICE=ANSWER``, such as
    ``efi.above_limit=invalid``; `pixconnect face show NAME` lists them. ``drawn`` among them
    draws all others by ``sandbox_seed``: a program that is right loses nothing under any seed."""

    demonstration_client_id: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{0,64}$")] = ""
    """The client_id of a sandbox's demonstration, for tests that must know it beforehand; empty lets one be made."""

    demonstration_client_secret: Annotated[str, Meta(extra={"is_secret": True})] = ""
    """Its secret, beside ``demonstration_client_id``."""

    sandbox_clock_at: str = ""
    """Where the sandbox's clock begins at the first start on an empty database, an RFC 3339 instant such as
    ``2031-03-14T12:00:00Z``, for tests whose days are written down; empty is real time. It goes on from there. At most 30 days
    before real time; certificates and tokens keep real time."""

    @property
    def clock_begins_at(self) -> datetime | None:
        """``sandbox_clock_at``; raises ``ValueError``."""
        if not self.sandbox_clock_at:
            return None
        with suppress(ValueError):
            found = datetime.fromisoformat(self.sandbox_clock_at)
            if found.tzinfo is not None:
                return found
        raise ValueError("must be an RFC 3339 instant with an offset, such as 2031-03-14T12:00:00Z")
