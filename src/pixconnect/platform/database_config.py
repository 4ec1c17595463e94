"""Settings of the database, which ``config.py`` has among all others."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta

_Secret = Annotated[str, Meta(extra={"is_secret": True})]

DATABASE_URLS: Final = (
    "database_url",
    "owner_database_url",
    "operator_database_url",
    "console_database_url",
    "verify_database_url",
    "read_database_url",
)


def is_readable_address(url: str) -> bool:
    """Whether an address falls apart where it was meant to: a mark of an address ends the password in which it stands."""
    try:
        address = urlsplit(url)
        places = address.netloc.rpartition("@")[2].split(",")
        # The driver takes what stands before the first @ for the user and password, and the rest for servers.
        strays = address.netloc.count("@") > 1 or "/" in address.path[1:] or "@" in address.fragment
        return not strays and all(map(_is_place, places))
    except ValueError:
        return False


def _is_place(place: str) -> bool:
    port = place.rpartition("]")[2] if place.startswith("[") else place
    _, mark, number = port.partition(":")
    return not mark or number.isdigit()


@dataclass(frozen=True, kw_only=True)
class DatabaseSettings:
    """The database."""

    database_url: _Secret = ""
    """PostgreSQL 16 or later, as ``postgresql://...``; empty means the embedded server in ``home``."""

    owner_database_url: _Secret = ""
    """The address of a role that owns the tables and may make roles; empty means ``database_url``."""

    operator_database_url: _Secret = ""
    """The address of a role that operators' verbs log in as; empty means ``owner_database_url``, or else ``database_url``."""

    console_database_url: _Secret = ""
    """The address of a role that the console logs in as to sign people in; empty means that of operators' verbs."""

    verify_database_url: _Secret = ""
    """The address of a role that `verify` logs in as, which only reads; empty means that of operators' verbs."""

    read_database_url: _Secret = ""
    """The address of a standby, with the login of ``database_url``: lists, statements and `verify` read there.

    If empty, the primary serves all reads.
    """

    database_tls: Literal["verify-full", "off-by-operator"] = "verify-full"
    """In live mode, every address of a database beyond this machine must have ``sslmode=verify-full``, so that the server
    proves its identity; ``off-by-operator`` if that network is yours alone."""

    database_cluster: str = ""
    """The ``cluster_name`` (Patroni: its scope) of servers of which only one that has each answered commit takes over.

    A server of another name is not used. If empty, a takeover may have lost data, and accounts at institutions pause.
    """

    database_connections_max: Annotated[int, Meta(ge=1)] = 10
    """Connections to PostgreSQL of one process."""
