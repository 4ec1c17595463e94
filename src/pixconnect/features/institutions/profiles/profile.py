"""Reads profiles: an institution's differences from the central bank's Pix API, as data.

API faces answer by them, and clients of an account call by them. Anything not in a file is as in the central bank's API.

Also the faces with a listener of their own, and the operator's choices where an institution's answer is undocumented.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, cast

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.profiles.account_traits import AccountTraits, Part
from pixconnect.kernel.rules.event import EventName

Known = Literal["seen", "read", "one source", "inferred"]
"""The source of a fact: a recording, an official source, one other source, or our own conclusion."""

_FOLDER: Final = Path(__file__).parent
OPERATIONS: Final[Mapping[str, tuple[str, str, int]]] = {
    "cob.criar_com_txid": ("PUT", "/cob/{txid}", 201),
    "cob.consultar": ("GET", "/cob/{txid}", 200),
    "cob.revisar": ("PATCH", "/cob/{txid}", 200),
    "cobv.criar_com_txid": ("PUT", "/cobv/{txid}", 201),
    "cobv.consultar": ("GET", "/cobv/{txid}", 200),
    "cobv.revisar": ("PATCH", "/cobv/{txid}", 200),
    "pix.listar": ("GET", "/pix", 200),
    "pix.consultar": ("GET", "/pix/{e2eid}", 200),
    "devolucao.solicitar": ("PUT", "/pix/{e2eid}/devolucao/{id}", 201),
    "devolucao.consultar": ("GET", "/pix/{e2eid}/devolucao/{id}", 200),
    "webhook": ("GET", "/webhook/{chave}", 200),
}
"""Those of the central bank's API that accounts use: method, path, and the status of a success."""


class Ports(Part, frozen=True, kw_only=True):
    production: int
    homologation: int


class TokenTraits(Part, frozen=True, kw_only=True):
    path: str = ""  # empty if there are no tokens: each request carries the base64 of ``client_id:client_secret``
    lifetime_s: int
    by_certificate: bool = False
    """A certificate that names the client is enough, without a secret; the token is bound to it."""
    known: Known = "read"
    differs: str = ""


class OperationTraits(Part, frozen=True, kw_only=True):
    """An operation's differences from the standard."""

    known: Known
    errors: str = "general"  # the group of refusals
    status: int | None = None  # of a success; ``None`` is the standard's
    repeats: Literal["answered", "refused"] = "answered"  # the result of a repeated request under its own id
    members: Sequence[str] | None = None  # all permitted members of its body; ``None`` takes the standard's
    omits: Sequence[str] = ()  # members that the answer lacks, as paths without the numbers of lists
    renames: Mapping[str, str] = {}  # its names of the answer's members, by such paths
    requires: Sequence[str] = ()  # members of the body that it needs and the standard does not, as `cob.calendario`
    path: str = ""  # where it is, if not below the prefix as the standard has it
    parameters: Mapping[str, str] = {}  # its names of parameters of the query, by the standard's
    differs: str = ""  # the difference from the institution, and the reason


class StandardTraits(Part, frozen=True, kw_only=True):
    prefix: str
    unknown_members: Literal["ignored", "refused"]
    operations: Mapping[str, OperationTraits]  # by the ids of the standard's table; other operations are not offered


class RefusalTemplate(Part, frozen=True, kw_only=True):
    """A body of refusals; texts in braces are filled in, and ``{violations}`` is left out if there are none."""

    body: Mapping[str, str]
    violation: Mapping[str, str] = {}
    media_type: str = "application/json"


class RefusalTraits(Part, frozen=True, kw_only=True):
    status: int
    name: str
    text: str = ""  # empty uses the standard API's text
    form: str = ""  # the template; empty is the group's
    headers: Mapping[str, str] = {}  # ``{size}`` is filled in with the number of requests that the limit allows


class RefusalGroup(Part, frozen=True, kw_only=True):
    form: str
    codes: Mapping[str, RefusalTraits] = {}  # by the error's code; missing ones fall back to the group ``general``
    properties: Mapping[str, str] = {}  # codes by the faulty member of a request
    below: str = ""  # the prefix of paths for which this group also covers unknown paths


class WebhookTraits(Part, frozen=True, kw_only=True):
    url: Literal["joined", "appended"]  # whether ``/pix`` is joined to the path or appended to the whole text
    event_types: Sequence[str]
    only_with_txid: bool
    omits: Sequence[str] = ()
    sent_path: str = ""
    """The suffix of the URL that receives the account's sends; empty if keys' webhooks receive them, or none."""
    sent_body: Literal["request", "payment"] = "request"
    """Whether that names a send by the code of its request, or by its end-to-end id."""
    events: Mapping[str, EventName] = {}  # our events by its names, if each webhook of an account has one event
    signatures: Mapping[Literal["hmac_sha1", "rsa_sha256"], str] = {}
    """The headers of its signatures over the body; if empty, ours are sent."""
    retry_waits_s: Sequence[int] = ()  # after each failed attempt; if empty, ours


class Choice(Part, frozen=True, kw_only=True):
    """An undocumented answer: each possible one; the first is the default."""

    about: str
    answers: Sequence[str]


class HomologationTraits(Part, frozen=True, kw_only=True):
    """Rules of its test environment, by amount."""

    paid_cents_max: int = 0  # charges up to this are paid automatically
    sent_cents_max: int = 0
    rejected_cents_max: int = 0
    """Sends above ``sent_cents_max`` and up to this are accepted and rejected later; larger ones are refused at once."""
    refund_rejected_cents: int = 0  # a refund of exactly this is rejected after it was taken
    returned_cents: Mapping[str, Sequence[int]] = {}  # the amount returned for a completed send, by its amount
    test_key: str = ""  # the only key that can be paid; empty if the amount decides nothing
    settled_key: str = ""  # the sandbox's key that it leads to for a completed send
    rejected_key: str = ""
    rejected_accounts: Mapping[str, Sequence[str]] = {}
    """The network's rejection code of a send to an account of this number, and the reported code, if different."""
    rejected_description: str = ""  # the description by which the sandbox rejects a refund


class SentTraits(Part, frozen=True, kw_only=True):
    """Its words for the result of a send."""

    statuses: Mapping[str, str] = {}  # by our status
    rejections: Mapping[str, str] = {}  # by the network's code; missing ones use the word of ``ERROR``
    callback_statuses: Mapping[str, str] = {}  # different words in callbacks; ``other`` is for all others
    error_codes: Mapping[str, str] = {}  # its codes of why a send failed, by the network's; ``other`` is for all others

    def choose_word(self, status: str, code: str | None) -> str:
        """Return the word for a transfer of this status here that ended with this code."""
        rejection = self.rejections.get(code or "") if status == "ERROR" else None
        return rejection or self.statuses[status]


class InstitutionProfile(Part, frozen=True, kw_only=True):
    name: str
    title: str
    ispb: str
    compe: str = ""  # its three-digit code, if it has one
    client_certificate: Literal["required", "none"]
    ports: Ports
    token: TokenTraits
    scopes: Mapping[str, str]  # our scopes by theirs
    standard: StandardTraits
    forms: Mapping[str, RefusalTemplate]
    errors: Mapping[str, RefusalGroup]
    inferred: Sequence[str]  # names of refusals without a source
    webhook: WebhookTraits
    account: AccountTraits
    choices: Mapping[str, Choice] = {}
    homologation: HomologationTraits = HomologationTraits()
    sent: SentTraits = SentTraits()
    checked_by: str = ""  # the library that tests the profile; empty if it was only derived from documents
    interval: Sequence[str] = ()  # the parameters for begin and end of all its lists, if not the standard's
    slips: Sequence[str] = ()  # errors of its official document, where its face answers otherwise
    libraries: Mapping[str, str] = {}
    """Lines that point a library to its face, by the library's name; words in braces are filled in."""
    not_done: Mapping[str, str] = {}  # operations that its face lacks, and why

    def choose(self, answers: Mapping[str, str], choice: str) -> str:
        """Return the chosen answer, or the default, where an answer is undocumented."""
        return answers.get(f"{self.name}.{choice}") or self.choices[choice].answers[0]

    def find_refusal(self, group: str, code: str) -> RefusalTraits | None:
        for name in (group, "general"):
            if (found := self.errors[name].codes.get(code)) is not None:
                return found
        return None


@cache
def read_profile(name: str) -> InstitutionProfile:
    own = _read_file(f"{name}.toml")
    like: object = own.pop("like", None)
    common = {} if like is None else _read_file(f"common/{like}.toml")
    return msgspec.convert(_lay_over(common, own), InstitutionProfile)


def _read_file(name: str) -> dict[str, object]:
    return tomllib.loads((_FOLDER / name).read_text(encoding="utf-8"))


def _lay_over(common: Mapping[str, object], own: Mapping[str, object]) -> dict[str, object]:
    """Override the common values by a file's; ``false`` removes a value."""
    laid = dict(common)
    for name, value in own.items():
        below = common.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            laid[name] = _lay_over(cast("dict[str, object]", below), cast("dict[str, object]", value))
        elif value is False and isinstance(below, dict):
            del laid[name]
        else:
            laid[name] = value
    return laid


FACES_PATH: Final = "/faces/"  # below it each face has its name
NAMES: Final = tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def reshape(record: object, omits: Sequence[str], renames: Mapping[str, str] = {}) -> object:
    """Remove and rename members of a record; in a list, of each item.

    Example:
        >>> reshape({"pix": [{"txid": 1, "chave": 2, "valor": 3}]}, ["pix.chave"], dict([("pix.valor", "amount")]))
        {'pix': [{'txid': 1, 'amount': 3}]}
    """
    if record is None or not (omits or renames):
        return record
    plain: object = msgspec.to_builtins(record)
    for path in omits:
        _change(plain, path.split("."), None)
    for path, name in renames.items():
        _change(plain, path.split("."), name)
    return plain


def _change(value: object, path: Sequence[str], name: str | None) -> None:
    if isinstance(value, list):
        for item in cast("list[object]", value):
            _change(item, path, name)
    elif isinstance(value, dict):
        members = cast("dict[str, object]", value)
        if len(path) > 1:
            _change(members.get(path[0]), path[1:], name)
        elif path[0] in members:
            moved = members.pop(path[0])
            if name is not None:
                members[name] = moved


HOMOLOGATION: Final = "+homologation"
DRAWN: Final = "drawn"
_PORT_MAX: Final = 65535


class FaceListener(Struct, frozen=True, kw_only=True):
    face: str  # the institution's name, with ``+homologation`` for its test environment's
    port: int  # 0 picks a free one

    def __str__(self) -> str:
        return f"{self.face}:{self.port}"


def parse_listeners(text: str) -> tuple[FaceListener, ...]:
    """Read ``efi:8101,efi+homologation``; the default port is the face's own.

    Raises:
        ValueError: The message names the fault.
    """
    listeners = tuple(_parse_listener(part.strip()) for part in text.split(",") if part.strip())
    names = [listener.face for listener in listeners]
    if len(set(names)) < len(names):
        raise ValueError("names a face twice")
    return listeners


def _parse_listener(text: str) -> FaceListener:
    face, colon, port = text.partition(":")
    name = face.removesuffix(HOMOLOGATION)
    if name not in NAMES:
        raise ValueError(f"there is no face {name[:64]!r}; there are {', '.join(NAMES)}, each also with {HOMOLOGATION}")
    if colon and not (port.isdecimal() and port.isascii() and int(port[:9]) <= _PORT_MAX):
        raise ValueError(f"must be NAME:PORT, with a port from 0 to {_PORT_MAX}")
    ports = read_profile(name).ports
    usual = ports.homologation if face != name else ports.production
    return FaceListener(face=face, port=int(port) if colon else usual)


def parse_answers(text: str, seed: int) -> Mapping[str, str]:
    """Read ``efi.above_limit=invalid``; raises ``ValueError``.

    ``drawn`` draws, by the seed, an answer for each choice that is not named.
    """
    parts = [part for part in map(str.strip, text.split(",")) if part]
    answers = _draw_answers(seed) if DRAWN in parts else {}
    for part in parts:
        if part == DRAWN:
            continue
        name, _, answer = part.partition("=")
        face, _, choice = name.partition(".")
        found = read_profile(face).choices.get(choice) if face in NAMES else None
        if found is None:
            raise ValueError(f"{name[:64]!r} is no choice of a face: NAME.CHOICE=ANSWER")
        if answer not in found.answers:
            raise ValueError(f"{name} must be {' or '.join(found.answers)}")
        answers[name] = answer
    return answers


def _draw_answers(seed: int) -> dict[str, str]:
    drawn: dict[str, str] = {}
    for face in NAMES:
        for choice, found in read_profile(face).choices.items():
            name = f"{face}.{choice}"
            number = int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode()).digest())
            drawn[name] = found.answers[number % len(found.answers)]
    return drawn
