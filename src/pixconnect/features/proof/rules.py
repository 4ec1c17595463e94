"""The form of hash chains of entries and of the audit, and of their heads, which are also stored outside of the database.

::

    first head      SHA-256 of "holder 7"
    person digest   SHA-256 of salt + person      nothing, where nothing of an entry is about a person
    digest          SHA-256 of facts + person digest
    next head       SHA-256 of head + the digests of a link, in their order

The audit has one chain, one digest per link, and the SHA-256 of ``audit`` as first head. All holders' heads together are the
SHA-256 of each one's id and link, eight octets each, and head, by id. The chained parts of an entry, ``facts`` and
``person``, are UTF-8 texts from the view ``entry_facts``. The database chains by itself (``chain_entries``); this module
repeats it to inspect one. Neither may change, because recorded heads stay true for ever: ``tests/vectors/chain.json`` holds
both.
"""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from pixconnect.platform.base import errors

HexDigest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
ChainName = Literal["audit", "report", "entries"]
"""The chain of the audit, and those of all holders' entries together; ``report`` in older files, which is ignored."""


class ChainHead(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a file of heads: the end of a holder's chain, or of one of the installation."""

    holder_id: Annotated[int, Meta(ge=1)] | None = None
    chain: ChainName | None = None  # the installation's chain
    # The link of the chain; for all holders' entries together the last one that was chained.
    position: Annotated[int, Meta(ge=1)]
    head: HexDigest
    chained_at: datetime  # when it was chained: a holder's in service time, the others' in real time

    def __post_init__(self) -> None:
        if (self.holder_id is None) == (self.chain is None):
            raise ValueError("a head is of a holder or of a chain of the installation")


class ChainedEntry(Struct, frozen=True, kw_only=True):
    """An entry with all inputs of its link in the chain."""

    holder_id: int
    entry_id: int
    facts: str | None  # its present facts in the tables; ``None`` if they lack it
    person: str | None
    # ``None`` also once a text was erased: then the remaining texts have a salt and a digest of their own.
    salt: bytes | None
    person_digest: bytes | None  # as it was chained, like those that follow
    digest: bytes
    position: int
    place: int  # its place among the link's entries, from 1
    digests: Sequence[bytes]  # of all entries of the link
    head_before: bytes | None  # ``None`` for the first link, which follows the start derived from the holder's id
    head: bytes
    chained_at: datetime
    erased_salt: bytes | None = None
    erased_digest: bytes | None = None
    erased_at: datetime | None = None

    @property
    def is_erased(self) -> bool:
        """Whether texts of it were erased since, and the rest is unchanged."""
        return (
            self.person is not None
            and self.salt is None
            and self.erased_salt is not None
            and digest_person(self.erased_salt, self.person) == self.erased_digest
        )

    @property
    def is_as_chained(self) -> bool:
        """Whether all of it follows from the entry's present rows, except erased texts."""
        person_digest = self.person_digest if self.is_erased else None
        if self.person is not None and self.salt is not None:
            person_digest = digest_person(self.salt, self.person)
        before = first_head(self.holder_id) if self.head_before is None else self.head_before
        return (
            self.facts is not None
            and person_digest == self.person_digest
            and digest_entry(self.facts, person_digest) == self.digest == self.digests[self.place - 1]
            and next_head(before, self.digests) == self.head
        )


def first_head(holder_id: int) -> bytes:
    """The start before a holder's first link."""
    return hashlib.sha256(f"holder {holder_id}".encode()).digest()


def digest_person(salt: bytes, person: str) -> bytes:
    """Hash the person; the salt prevents guessing by trial."""
    return hashlib.sha256(salt + person.encode()).digest()


def digest_entry(facts: str, person_digest: bytes | None) -> bytes:
    return hashlib.sha256(facts.encode() + (person_digest or b"")).digest()


def next_head(head: bytes, digests: Sequence[bytes]) -> bytes:
    return hashlib.sha256(head + b"".join(digests)).digest()


HEADS_TOLD: Final = "heads of the chains"  # the event of their log line


class _LogLine(Struct, frozen=True):
    event: str
    heads: Raw = Raw()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ChainHead).decode
_decode_log = msgspec.json.Decoder(_LogLine).decode
_decode_heads = msgspec.json.Decoder(list[ChainHead]).decode


def format_heads(heads: Sequence[ChainHead]) -> bytes:
    """Write one line of JSON for each."""
    return b"".join(_encode(head) + b"\n" for head in heads)


def parse_heads(lines: Iterable[bytes]) -> list[ChainHead]:
    """Read a file of heads, or a log of JSON lines, skipping its lines without heads; raises ``BadRequest`` for others."""
    heads = list[ChainHead]()
    for number, line in enumerate(lines, 1):
        try:
            heads += _read_line(line)
        except msgspec.MsgspecError as error:
            raise errors.BadRequest(f"heads: line {number}: {error}") from None
    return heads


def _read_line(line: bytes) -> Sequence[ChainHead]:
    # No head has such a member, and every line of the log has.
    if b'"event":' not in line:
        return [_decode(line)]
    logged = _decode_log(line)
    return _decode_heads(logged.heads) if logged.event == HEADS_TOLD else ()
