"""A cell as the home cell knows it, and the address of its database, which says nothing of who logs in there.

Every process logs in to a cell by the very login, password and certificate by which it logs in to the home cell, so that these
are changed at one place; ``address_for`` puts the two together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit
from uuid import UUID

from msgspec import Struct

from pixconnect.domain.frame import errors

CellState = Literal["OPENING", "OPEN", "MOVING"]

_LOGIN_WORDS: Final = frozenset({"user", "password", "passfile", "sslcert", "sslkey", "sslpassword"})
_PLACE_WORDS: Final = frozenset({"host", "port", "sslmode", "sslrootcert", "sslcrl", "target_session_attrs"})
_CLUSTER: Final = "cluster"
"""No driver's word but ours: the ``cluster_name`` of the servers that may answer at an address."""
_CLUSTER_LENGTH_MAX: Final = 64
HOME_NAME: Final = "home"
"""What the home cell is called, so no other cell is."""
SEEN_WITHIN_S: Final = 5.0
"""How late processes see what has become of a cell."""
COPY_PREFIX: Final = "pixconnect_move_"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NAME: Final = re.compile("[a-z][a-z0-9-]{0,31}")
_PORT: Final = 5432
_PORT_MAX: Final = 65_535
_PORT_WORD: Final = re.compile("[0-9]{1,5}")
_DATABASE_NAME_MAX: Final = 63
"""Octets of a name that PostgreSQL keeps; it cuts longer ones off."""
_CLOSED: Final = "_moved_"
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-f:.]+\]|[^:\[\]@%\s\x00-\x1f\x7f]+)(:(?P<port>[0-9]{1,5}))?")
_LABEL_LENGTH_MAX: Final = 63
"""Of each part of a host's name between two dots (RFC 1035)."""
_ADDRESS_LENGTH_MAX: Final = 1000
_ROLES_OF_SERVERS: Final = frozenset({"any", "primary", "standby", "read-write", "read-only", "prefer-standby"})
"""What ``target_session_attrs`` may be."""


class CellAddress(Struct, frozen=True, kw_only=True):
    address: str
    """As ``parse_address`` answers it."""

    def address_for(self, login_url: str) -> str:
        """The address by which whoever logs in to the home cell by ``login_url`` logs in here; empty where there is none."""
        if not login_url:
            return ""
        login, place = urlsplit(login_url), urlsplit(self.address)
        login_text, at, _ = login.netloc.rpartition("@")
        place_words = [(key, word) for key, word in parse_qsl(place.query) if key != _CLUSTER]
        words = [*place_words, *((key, word) for key, word in parse_qsl(login.query) if key in _LOGIN_WORDS)]
        return _write(f"{login_text}{at}{place.netloc}", place.path[1:], words)

    @property
    def cluster(self) -> str:
        """That of its servers; empty where none is named: whoever takes over there may have forgotten something."""
        return dict(parse_qsl(urlsplit(self.address).query)).get(_CLUSTER, "")

    @property
    def database(self) -> str:
        return unquote(urlsplit(self.address).path[1:])

    @property
    def closed_prefix(self) -> str:
        """What the name of each database begins with that a move has closed here; the instant at which it began follows."""
        kept = self.database.encode()[: _DATABASE_NAME_MAX - len(_CLOSED) - len("20261231_235959")]
        return f"{kept.decode(errors='ignore')}{_CLOSED}"

    def list_servers(self) -> list[str]:
        """An address of each server that the address names: of several, a driver tells only what became of the last one."""
        parts = urlsplit(self.address)
        words = [(key, word) for key, word in parse_qsl(parts.query) if key != "target_session_attrs"]
        given = dict(words)
        if parts.netloc or "," not in given["host"]:
            return [_write(place, parts.path[1:], words) for place in parts.netloc.split(",")]
        others = [(key, word) for key, word in words if key not in {"host", "port"}]
        places, ports = given["host"].split(","), given.get("port", str(_PORT)).split(",")
        if len(ports) == 1:
            ports *= len(places)
        return [
            _write("", parts.path[1:], [*others, ("host", place), ("port", port)])
            for place, port in zip(places, ports, strict=True)
        ]


class KnownCell(CellAddress, frozen=True, kw_only=True):
    """What came later has a default: an upgrade reads the table of before."""

    number: int
    """1 to 255: the home cell is 0, and is not among those that it knows."""
    name: str
    identity: UUID
    """Stands in ``installation.cell_identity`` of the cell too: a database that says another one is another cell."""
    state: CellState
    """``OPENING`` while its tables are being made: nobody may use it yet. ``MOVING`` while it is served where it was."""
    added_at: datetime
    other_address: str | None = None
    """Where it is being moved to."""
    moving_since: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it is used at its address."""
        return self.state != "OPENING"

    @property
    def copy_name(self) -> str:
        """What publication, slot and subscription of this move are called, like those of no other move of any cell.

        A copy of a move that was taken back may still ask for its slot: it would take what the next copy is to have.
        """
        since = errors.require(self.moving_since, "it is being moved") - _EPOCH
        return f"{COPY_PREFIX}{self.identity.hex}_{since // timedelta(microseconds=1):x}"

    def is_older_than(self, copy_name: str | None) -> bool:
        """Whether this move began before another one of the same cell, by what that is called; ``None`` is none."""
        own = f"{COPY_PREFIX}{self.identity.hex}_"
        return (
            copy_name is not None
            and copy_name.startswith(own)
            and errors.require(self.moving_since, "it is being moved") < began_at(copy_name)
        )

    @property
    def closed_database(self) -> str:
        """What the former database is called once nobody may use it any more; no two moves close one by the same name."""
        return f"{self.closed_prefix}{errors.require(self.moving_since, 'it is being moved'):%Y%m%d_%H%M%S}"


def began_at(copy_name: str) -> datetime:
    """When the move whose copy is called so began, as its home cell knew it."""
    return _EPOCH + timedelta(microseconds=int(copy_name.rpartition("_")[2], 16))


class CellFigures(Struct, frozen=True, kw_only=True):
    octets: int
    """How many its database has on disk, as the file system says it."""
    drained_at: datetime | None
    """Since when no holder is opened there."""

    @property
    def is_drained(self) -> bool:
        return self.drained_at is not None


def in_other_database(url: str, database: str) -> str:
    """The same login and server, and another database there."""
    parts = urlsplit(url)
    return _write(parts.netloc, quote(database, safe=""), parse_qsl(parts.query))


def parse_name(text: str) -> str:
    """A name that a cell may have; ``ValueError`` for any other, which says the rule."""
    if not _NAME.fullmatch(text) or text == HOME_NAME:
        raise ValueError(
            "a cell's name begins with a small letter, has up to 32 small letters, digits and hyphens, and is not that of the "
            f"home cell, {HOME_NAME!r}"
        )
    return text


def parse_address(text: str) -> str:
    """Read the address of a cell's database, and write it as all of the same place are written.

    Raises:
        ValueError: It is no address of one database, or says who logs in; its message never shows the text, which may hold a
            password.
    """
    try:
        parts = urlsplit(text)
        words = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError("is no address: write postgresql://HOST:PORT/DATABASE") from None
    if parts.scheme not in {"postgresql", "postgres"} or parts.fragment:
        raise ValueError("is no address of a PostgreSQL database: write postgresql://HOST:PORT/DATABASE")
    if "@" in parts.netloc or any(key in _LOGIN_WORDS for key, _ in words):
        raise ValueError(
            "says who logs in: leave user, password and certificate out, since each process logs in to a cell as it does to "
            "the home cell"
        )
    _refuse_words(words)
    database = unquote(parts.path[1:])
    if not database or "/" in database or not database.isprintable():
        raise ValueError("names no database: write postgresql://HOST:PORT/DATABASE")
    hosts = _write_hosts(parts.netloc)
    # Without a host a driver would ask the environment of each process, which may differ.
    if not hosts and "host" not in dict(words):
        raise ValueError("names no host: write postgresql://HOST:PORT/DATABASE, or ?host=/FOLDER for a socket")
    written = _write(hosts, quote(database, safe=""), sorted(words))
    if len(written) > _ADDRESS_LENGTH_MAX:
        raise ValueError(f"has {len(written):,} characters, and may have {_ADDRESS_LENGTH_MAX:,}")
    return written


def _refuse_words(words: Sequence[tuple[str, str]]) -> None:
    if unknown := sorted({key for key, _ in words} - _PLACE_WORDS - {_CLUSTER}):
        raise ValueError(
            f"has {unknown[0]!r} in its query, which may have {', '.join(sorted({*_PLACE_WORDS, _CLUSTER}))}"
        )
    if not all(word.isprintable() for _, word in words):
        raise ValueError("has characters in its query that nobody can print")
    if not all(dict(words).get("host", "host").split(",")):
        raise ValueError("names a host that is none: write HOST:PORT, and several with a comma between")
    ports = dict(words).get("port", str(_PORT)).split(",")
    if len(ports) not in {1, len(dict(words).get("host", "host").split(","))}:
        raise ValueError("names another number of ports than of hosts: name one for each, or one for all")
    for port in ports:
        _refuse_port(port)
    cluster = dict(words).get(_CLUSTER)
    if cluster is not None and not 1 <= len(cluster) <= _CLUSTER_LENGTH_MAX:
        raise ValueError(f"names a cluster of none or more than {_CLUSTER_LENGTH_MAX} characters")
    if dict(words).get("target_session_attrs", "any") not in _ROLES_OF_SERVERS:
        raise ValueError(f"has a target_session_attrs that is none of {', '.join(sorted(_ROLES_OF_SERVERS))}")


def _refuse_port(text: str) -> None:
    if not _PORT_WORD.fullmatch(text) or not 1 <= int(text) <= _PORT_MAX:
        raise ValueError(f"names a port that is none: there are {_PORT_MAX:,}")


def _write(place: str, database: str, words: Sequence[tuple[str, str]]) -> str:
    # The library's own leaves out the slashes of an address that names no host, as that of a socket.
    query = urlencode(words, safe="/")
    return f"postgresql://{place}/{database}{'?' if query else ''}{query}"


def _write_hosts(netloc: str) -> str:
    written: list[str] = []
    for each in netloc.lower().split(",") if netloc else ():
        found = _HOST.fullmatch(each)
        # A name may end with the dot of the root.
        labels = [] if found is None else found["name"].removesuffix(".").split(".")
        if found is None or not all(1 <= len(label) <= _LABEL_LENGTH_MAX for label in labels):
            raise ValueError("names a host that is none: write HOST:PORT, and several with a comma between")
        port = found["port"] or str(_PORT)
        _refuse_port(port)
        written.append(f"{found['name']}:{int(port)}")
    return ",".join(written)
