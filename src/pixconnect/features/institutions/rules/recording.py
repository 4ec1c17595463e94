"""The recorded exchange with an institution in a rehearsal, without secrets and personal data.

A recording can be replayed, so a replacement has its original's form: digits stay digits, a QR code stays one, and a key has
the same replacement everywhere. The network's names (end-to-end ids, txids) stay: they identify institutions and instants, but
no person.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
from msgspec import Struct

from pixconnect.features.institutions.profiles.profile import OPERATIONS, InstitutionProfile, OperationTraits
from pixconnect.features.institutions.rules.account import Credential, Environment, InstitutionAccount, Kind
from pixconnect.kernel.rules.br_code import format_static_br_code

REDACTED: Final = "redacted"
_CODE: Final = format_static_br_code("redacted@pix.example", "REDACTED", "SAO PAULO")
"""Stands for each QR code, whose checksum would not survive a change."""
_TEXT_MAX: Final = 600  # anything longer is a picture, without information
_SECRET: Final = re.compile(r"(?i)token$|secret|password|senha|app_?id|client_?id|authorization|chave_?acesso")
_PERSONAL: Final = re.compile(
    r"(?i)(?!tipo).*(nome|name|friendly|fantasia|razao|cpf|cnpj|tax_?id|document|mail|fone|phone|logradouro|endereco|address|"
    r"bairro|cidade|agencia|branch|info_?pagador|solicitacao_?pagador|descri|coment|comment|memo|historico|informac)"
    r".*|conta(corrente)?|account(_?number)?|numero|detalhes?|uf|cep|city|zip_?code|payer_?message"
)
"""Members with personal data, or with free text."""
_PATTERNS: Final = (
    re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+"),
    re.compile(r"(?<![0-9A-Za-z])\d{3}\.\d{3}\.\d{3}-\d{2}(?![0-9A-Za-z])"),
    re.compile(r"(?<![0-9A-Za-z])\d{2}\.\d{3}\.\d{3}/\d{4}-\d{2}(?![0-9A-Za-z])"),
    re.compile(r"(?<![0-9A-Za-z])(\d{11}|\d{14})(?![0-9A-Za-z])"),
    re.compile(r"\+55\d{10,11}"),
    re.compile(r"eyJ[\w-]{8,}\.[\w-]+\.[\w-]*"),
)
"""People's identifiers, anywhere."""
_KEY: Final = re.compile(r"key\d+@pix\.example")  # as ``redact_key`` makes them
_SEARCHED_MIN: Final = 8  # shorter ones are replaced only as a whole text: they could be a part of anything


class TakenExchange(Struct, frozen=True, kw_only=True):
    """A request and its result, unredacted: it is shown and stored nowhere."""

    method: str
    target: str
    authorization: str = ""
    sent: bytes
    status: int | None = None
    media_type: str = ""
    content: bytes = b""
    failure: str | None = None  # the name of the exception, and why there was no answer

    def __repr__(self) -> str:
        return f"TakenExchange({self.method})"


class RecordedExchange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    method: str
    path: str
    query: Mapping[str, str] = {}
    sent: object = None
    status: int | None = None
    media_type: str = ""
    form: Literal["json", "none", "other"] = "none"  # the content type of the answer; only JSON is stored
    content: object = None
    failure: str | None = None


class RehearsalRecording(Struct, frozen=True, kw_only=True):
    """A file of ``institution rehearse --record``."""

    kind: Kind
    profile: str
    environment: Environment
    options: Sequence[str]  # their names alone
    made_at: datetime
    key: str  # in place of the account's own
    txid: str
    refund_id: str
    refunds: bool  # whether it was permitted to return a cent
    steps: Sequence[Sequence[str]]  # the rehearsal's results: each step, its outcome and the reason
    exchanges: Sequence[RecordedExchange]


class Redaction:
    """Replaces secrets and personal data.

    Args:
        account: Its owner and keys are replaced.
        credential: In its stored form.
        taken: The exchange, which alone contains the secrets stored in files.
    """

    def __init__(self, account: InstitutionAccount, credential: Credential, taken: Sequence[TakenExchange] = ()) -> None:
        secrets = {text for each in taken for text in _list_secrets(each)}
        known = {text: REDACTED for text in (credential.client_id, credential.client_secret, *secrets) if text}
        known |= {text: mask(text) for text in (account.tax_id, account.account) if text}
        # A reported name may occur elsewhere too, as in a line of the statement.
        known |= {text: mask(text) for each in taken for text in _list_names(_decode(each.content))}
        known |= {key: redact_key(number) for number, key in enumerate(account.keys)}
        # Longest first, as one may contain another.
        self._known = dict(sorted(known.items(), key=lambda pair: -len(pair[0])))

    def redact_exchange(self, taken: TakenExchange) -> RecordedExchange:
        parts = urlsplit(taken.target)
        form, content = self._read(taken.content, is_refusal=(taken.status or 0) >= 400)
        return RecordedExchange(
            method=taken.method,
            path=self.redact_text(unquote(parts.path)),
            query={name: self.redact_text(text) for name, text in parse_qsl(parts.query)},
            sent=self._read_sent(taken.sent),
            status=taken.status,
            media_type=taken.media_type,
            form=form,
            content=content,
            failure=taken.failure and self.redact_text(taken.failure),
        )

    def redact(self, value: object, name: str = "") -> object:
        """Redact secrets and personal data.

        Args:
            name: Of the member that has it, or of the one around its list.
        """
        if isinstance(value, dict):
            members = cast("dict[str, object]", value)
            return {each: self.redact(inside, each) for each, inside in members.items()}
        if isinstance(value, list):
            return [self.redact(each, name) for each in cast("list[object]", value)]
        is_personal = _PERSONAL.fullmatch(name) is not None
        if isinstance(value, str):
            if value and _SECRET.search(name):
                return REDACTED
            if is_personal:
                return self._known.get(value) or mask(value)
            return self.redact_text(value)
        if is_personal and type(value) in (int, float):
            return 0
        return value

    def redact_text(self, text: str) -> str:
        if text.startswith("000201"):
            return _CODE
        if len(text) > _TEXT_MAX:
            return REDACTED
        for known, other in self._known.items():
            if text == known:
                return other
            if len(known) >= _SEARCHED_MIN:
                text = text.replace(known, other)
        for pattern in _PATTERNS:
            text = pattern.sub(lambda found: found[0] if _KEY.fullmatch(found[0]) else mask(found[0]), text)
        return text

    def _read(self, content: bytes, *, is_refusal: bool = False) -> tuple[Literal["json", "none", "other"], object]:
        value = _decode(content)
        if value is None:
            return "other" if content.strip() else "none", None
        redacted = self.redact(value)
        named = _as_members(value).get("nome") if is_refusal else None
        # A refusal's name contains no personal data.
        if isinstance(named, str) and re.fullmatch("[A-Za-z_]+", named):
            redacted = {**cast("dict[str, object]", redacted), "nome": named}
        return "json", redacted

    def _read_sent(self, sent: bytes) -> object:
        form, content = self._read(sent)
        if form != "other":
            return content
        # Token requests are forms.
        return self.redact(dict(parse_qsl(sent.decode("utf-8", "replace"))))


def _decode(content: bytes) -> object:
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _list_names(value: object, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for each, inside in cast("dict[str, object]", value).items():
            yield from _list_names(inside, each)
    elif isinstance(value, list):
        for inside in cast("list[object]", value):
            yield from _list_names(inside, name)
    elif isinstance(value, str) and " " in value and len(value) >= _SEARCHED_MIN and _PERSONAL.fullmatch(name):
        yield value


def _list_secrets(taken: TakenExchange) -> Sequence[str]:
    scheme, _, value = taken.authorization.rpartition(" ")
    if scheme == "Basic":
        return value, *base64.b64decode(value).decode("utf-8", "replace").split(":", 1)
    form = dict(parse_qsl(taken.sent.decode("utf-8", "replace")))
    return [text for text in (value, form.get("client_secret", "")) if text]


def redact_key(number: int) -> str:
    return f"key{number}@pix.example"


def mask(text: str) -> str:
    """Replace letters and digits, keeping the form.

    Example:
        >>> mask("Maria 123.456-7"), mask("***.456")
        ('xxxxx 000.000-0', '***.000')
    """
    return "".join("0" if each.isdigit() else "x" if each.isalpha() else each for each in text)


_NAMING: Final = ("type", "nome")  # members that name a refusal


class RehearsedStep(Struct, frozen=True, kw_only=True):
    step: str
    outcome: Literal["as expected", "differs", "not tried"]
    text: str = ""


class Rehearsal(Struct, frozen=True, kw_only=True):
    steps: Sequence[RehearsedStep]
    recording: RehearsalRecording

    @property
    def differs_count(self) -> int:
        return sum(step.outcome == "differs" for step in self.steps)


def judge_exchanges(profile: InstitutionProfile, exchanges: Sequence[RecordedExchange]) -> list[RehearsedStep]:
    """List the differences of answers from the profile: statuses, names of refusals, members; each once."""
    found = [(exchange, _find_operation(profile, exchange)) for exchange in exchanges]
    complaints = [
        RehearsedStep(step=f"{exchange.method} {operation[0] if operation else exchange.path}", outcome="differs", text=text)
        for exchange, operation in found
        for text in _judge(profile, exchange, operation)
    ]
    return list(dict.fromkeys(complaints))


def is_of_path(template: str, path: str) -> bool:
    """Whether a path matches a template, in which names are in braces.

    Example:
        >>> is_of_path("/cob/{txid}", "/cob/abc"), is_of_path("/cob/{txid}", "/cob/abc/def")
        (True, False)
    """
    parts = re.split(r"\{[^}]*\}", template)
    return re.fullmatch("[^/]+".join(map(re.escape, parts)), path) is not None


def _judge(
    profile: InstitutionProfile, exchange: RecordedExchange, found: tuple[str, OperationTraits, int] | None
) -> Iterator[str]:
    if exchange.status is None:
        return
    members = _as_members(exchange.content)
    if exchange.status >= 400:
        for member in _NAMING:
            name = members.get(member)
            if isinstance(name, str) and (short := name.rpartition("/")[2]) not in _known_names(profile):
                yield f"{exchange.status} is named {short}, which the profile has not"
        return
    if found is None:
        return
    _, traits, usual = found
    expected = traits.status or usual
    if exchange.status != expected:
        yield f"answers {exchange.status}, where the profile has {expected}"
    for path in traits.omits:
        # A list's omissions are given with the list's name in front.
        if _has(members, path.split(".")):
            yield f"has {path}, which the profile leaves out"


def _known_names(profile: InstitutionProfile) -> frozenset[str]:
    traits = profile.account
    certain = (*traits.opening_refusals, *traits.revision_refusals, *traits.refund_refusals)
    groups = [refusal.name for group in profile.errors.values() for refusal in group.codes.values()]
    return frozenset(name.rpartition("/")[2] for name in (*groups, *traits.absent, *(refusal.name for refusal in certain)))


def _find_operation(profile: InstitutionProfile, exchange: RecordedExchange) -> tuple[str, OperationTraits, int] | None:
    for name, (method, path, usual) in OPERATIONS.items():
        traits = profile.standard.operations.get(name)
        if traits is None or method != exchange.method:
            continue
        template = traits.path or profile.standard.prefix + path
        if is_of_path(template, exchange.path) or is_of_path(profile.account.place_in_tests(template), exchange.path):
            return template, traits, usual
    return None


def _has(value: object, path: Sequence[str]) -> bool:
    if isinstance(value, list):
        return any(_has(each, path) for each in cast("list[object]", value))
    if not path:
        return True
    members = _as_members(value)
    return path[0] in members and _has(members[path[0]], path[1:])


def _as_members(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else dict[str, object]()
