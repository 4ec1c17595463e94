"""Fetches, verifies and reads the payload that another institution serves behind its dynamic QR code.

::

    location ──GET──► compact JWS: header (alg kid jku x5t#S256) . payload . signature
                                             │
                jku, on the same host ──GET──► JWK set ──► the key of that kid and x5t#S256 ──► its chain leads to a CA
                                                                      └──► has signed ──► the payload is read

This is the port ``Locations``. The QR code chooses the host, so all requests go through ``OutgoingHttp``, and each holder, and
all together, have a limit. ``InvalidQrCode`` names the other side's error; after ``LocationUnreachable`` a retry may succeed.

Payloads (``CobPayload``, ``CobVPayload``) are read leniently, since institutions differ: numbers may be texts, a comma may
separate the cents, and unused fields may be missing or wrong. The receiver's institution checks every order again anyway.
"""

import asyncio
import re
from codecs import BOM_UTF8
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, Literal
from urllib.parse import urlsplit

import msgspec
import structlog
from msgspec import Struct, field

from pixconnect.features.locations import certificate_chain
from pixconnect.kernel.rules.charge_contents import LIFETIME_S, VALID_DAYS
from pixconnect.kernel.rules.location import LocationUnreachable, OutsideCharge
from pixconnect.platform.adapters.outgoing_http import ExchangeLimits, OutgoingHttp
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import Target, TargetRefused, parse_target
from pixconnect.platform.base.clock import SAO_PAULO, Clock
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.flow.shares import OutgoingLimit
from pixconnect.platform.http.client import ConnectionFailed
from pixconnect.platform.json_members import list_names, refuse_repeated

KEY_LENGTH_MAX: Final = 77

_ANY_AMOUNT: Final = 1  # the ``modalidadeAlteracao`` of a charge whose payer chooses the amount

_QUESTION_LENGTH_MAX: Final = 140

_TXID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_AMOUNT: Final = re.compile(r"([0-9]{1,10})(?:[.,]([0-9]{0,2}))?")
_COUNT: Final = re.compile(r"[0-9]{1,9}")

_Number = int | float | str
_Status = Literal["ATIVA", "CONCLUIDA", "REMOVIDA_PELO_USUARIO_RECEBEDOR", "REMOVIDA_PELO_PSP"]


class _Calendar(Struct, frozen=True, kw_only=True):
    """How long it can be paid: seconds after an instant, or days after a civil date."""

    created_at: str | None = field(default=None, name="criacao")
    payable_for_s: _Number | None = field(default=None, name="expiracao")
    due_on: str | None = field(default=None, name="dataDeVencimento")
    payable_after_due_days: _Number | None = field(default=None, name="validadeAposVencimento")


class _Value(Struct, frozen=True, kw_only=True):
    # With a due date ``final`` counts: it contains the fines and discounts of the day.
    original: _Number | None = None
    final: _Number | None = None
    change_mode: _Number | None = field(default=None, name="modalidadeAlteracao")


class _Payload(Struct, frozen=True, kw_only=True):
    txid: str
    calendar: _Calendar = field(name="calendario")
    value: _Value = field(name="valor")
    key: str = field(name="chave")
    status: _Status
    revision: object = field(default=None, name="revisao")
    question: object = field(default=None, name="solicitacaoPagador")


_read = msgspec.json.Decoder(_Payload).decode
_NAMES: Final = list_names(_Payload)


def parse_payload(octets: bytes) -> OutsideCharge:
    """Read a payload; raises ``InvalidQrCode`` if it is no charge."""
    try:
        payload = _read(octets := octets.removeprefix(BOM_UTF8))
        refuse_repeated(octets, _NAMES)
    except (msgspec.MsgspecError, ValueError, RecursionError, errors.BadRequest) as error:
        raise _refusal(f"cannot be read: {error}") from None
    if _TXID.fullmatch(payload.txid) is None:
        raise _refusal("has a txid that is not 1 to 35 letters and digits")
    if not 0 < len(payload.key) <= KEY_LENGTH_MAX:
        raise _refusal(f"has a chave that is not 1 to {KEY_LENGTH_MAX} characters long")
    try:
        created_at = _read_instant(payload.calendar.created_at)
        expires_at = _find_expiry(payload.calendar, created_at)
    except (ValueError, OverflowError):
        raise _refusal("has a calendario that names no instant") from None
    return OutsideCharge(
        txid=payload.txid,
        key=payload.key,
        amount_cents=_find_amount(payload),
        status=payload.status,
        expires_at=expires_at,
        created_at=created_at,
        has_due_date=payload.calendar.due_on is not None,
        revision=payload.revision if type(payload.revision) is int else 0,
        question=payload.question[:_QUESTION_LENGTH_MAX] if isinstance(payload.question, str) else None,
    )


def _read_instant(text: str | None) -> datetime | None:
    if text is None:
        return None
    # RFC 3339 has "t" and "z" in small letters too.
    instant = datetime.fromisoformat(text.upper())
    # An instant without a zone counts as UTC, which the scheme uses.
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def _find_amount(payload: _Payload) -> int | None:
    """Find the amount in cents; ``None`` if the payer may choose it."""
    value = payload.value
    if payload.calendar.due_on is not None or value.final is not None:
        amount_cents = _parse_amount(value.final, "valor.final")
    else:
        amount_cents = _parse_amount(value.original, "valor.original")
    change_mode = 0 if value.change_mode is None else _parse_count(value.change_mode, "valor.modalidadeAlteracao")
    return None if amount_cents == 0 or change_mode == _ANY_AMOUNT else amount_cents


def _parse_amount(number: _Number | None, name: str) -> int:
    if number is None:
        raise _refusal(f"has no {name}")
    found = _AMOUNT.fullmatch(str(number))
    if found is None:
        raise _refusal(f"has a {name} that is no amount")
    reais, cents = found.groups()
    return int(reais) * 100 + int((cents or "").ljust(2, "0"))


def _parse_count(number: _Number, name: str) -> int:
    text = str(number).removesuffix(".0")
    if _COUNT.fullmatch(text) is None:
        raise _refusal(f"has a {name} that is no count")
    return int(text)


def _find_expiry(calendar: _Calendar, created_at: datetime | None) -> datetime | None:
    if calendar.due_on is not None:
        return _find_expiry_after_due(calendar, date.fromisoformat(calendar.due_on[:10]))
    if created_at is None:
        return None
    payable_for_s = LIFETIME_S
    if calendar.payable_for_s is not None:
        payable_for_s = _parse_count(calendar.payable_for_s, "calendario.expiracao")
    return created_at + timedelta(seconds=payable_for_s)


def _find_expiry_after_due(calendar: _Calendar, due_on: date) -> datetime:
    days = VALID_DAYS
    if calendar.payable_after_due_days is not None:
        days = _parse_count(calendar.payable_after_due_days, "calendario.validadeAposVencimento")
    last_on = due_on + timedelta(days=days)
    # A last day at the weekend moves to Monday. Holidays would move it too, but payers differ in these: the receiver's
    # institution decides whether an order after a holiday is in time.
    if last_on.weekday() >= 5:
        last_on += timedelta(days=7 - last_on.weekday())
    return datetime.combine(last_on + timedelta(days=1), time(), SAO_PAULO).astimezone(UTC)


def _refusal(reason: str) -> errors.InvalidQrCode:
    return errors.InvalidQrCode(f"emv: the payload at its location {reason}")


BODY_LENGTH_MAX: Final = 64 * 1024
# One octet more than permitted, to detect a longer body.
LIMITS: Final = ExchangeLimits(connect_s=5.0, exchange_s=10.0, body_kept_max=BODY_LENGTH_MAX + 1)
# How long an institution's keys are cached. An unknown ``kid`` is fetched at once.
KEYS_CACHED_S: Final = 60.0
KEY_SETS_MAX: Final = 64
FETCHES_MAX: Final = 128
FETCHES_OF_HOLDER_MAX: Final = 32

_log = structlog.get_logger(__name__)


class LocationReader:
    """Reads the locations of outside institutions, and of the sandbox's merchants at this host and port."""

    def __init__(
        self,
        http: OutgoingHttp,
        clock: Clock,
        trusted: certificate_chain.Trusted,
        *,
        allows_loopback: bool,
        sandbox_authority: str | None = None,
        exchange_s: float = LIMITS.exchange_s,
        key_sets_max: int = KEY_SETS_MAX,
    ) -> None:
        self._http = http
        self._exchange_s = exchange_s
        self._clock = clock
        self._trusted = trusted
        self._allows_loopback = allows_loopback
        self._sandbox_authority = sandbox_authority
        self._limit = OutgoingLimit(FETCHES_MAX, holder_max=FETCHES_OF_HOLDER_MAX, what="readings of QR code locations")
        self._key_sets = BoundedCache[Target, tuple[float, bytes]](key_sets_max)

    async def read(self, location: str) -> OutsideCharge:
        target = self._parse_location(location)
        # One limit for both requests together and the wait for a permit: the caller waits for the answer.
        try:
            async with asyncio.timeout(self._exchange_s), self._limit.hold():
                signed = certificate_chain.parse_jws(await self._fetch(target, "location"))
                key = await self._find_key(signed.header, target)
                trusted = await self._trusted()
                # Within the limit too: it is the holder's work, for any content. Certificates do not follow the sandbox's
                # clock.
                certificate_chain.verify_payload(signed, key, target.host, trusted, self._clock.real_now())
        except TimeoutError:
            raise LocationUnreachable(f"not read within {self._exchange_s:g} s") from None
        except errors.ServiceUnavailable as error:
            raise LocationUnreachable(error.message) from error
        return parse_payload(signed.payload)

    async def close(self) -> None:
        await self._http.close()

    def _parse_location(self, location: str) -> Target:
        try:
            target = self._parse_target(f"https://{location}")
            # The sandbox's merchants have no TLS.
            if target.is_loopback_allowed:
                target = self._parse_target(f"http://{location}")
        except TargetRefused as refused:
            raise errors.InvalidQrCode(f"emv: its location {refused.reason}") from None
        return target

    def _parse_target(self, url: str) -> Target:
        is_ours = self._sandbox_authority is not None and urlsplit(url).netloc == self._sandbox_authority
        return parse_target(url, allows_loopback=self._allows_loopback or is_ours)

    def _parse_jku(self, jku: str, location: Target) -> Target:
        try:
            target = self._parse_target(jku)
        except TargetRefused as refused:
            raise certificate_chain.refusal(f"signed with a key whose jku {refused.reason}") from None
        # The certificate must name this host, so keys from elsewhere would prove nothing about it.
        if target.host != location.host:
            raise certificate_chain.refusal("signed with a key whose jku is on another host")
        return target

    async def _find_key(self, header: certificate_chain.PayloadHeader, location: Target) -> certificate_chain.Jwk:
        target = self._parse_jku(header.jku, location)
        kept = self._key_sets.get(target)
        if kept is not None and self._clock.monotonic_s() - kept[0] < KEYS_CACHED_S:
            key = certificate_chain.select_key(kept[1], header)
            if key is not None:
                return key
        fetched = await self._fetch(target, "jku")
        key = certificate_chain.select_key(fetched, header)
        if key is None:
            raise certificate_chain.refusal("signed with a key (kid, x5t#S256) that its jku does not have")
        self._key_sets.keep(target, (self._clock.monotonic_s(), fetched))
        return key

    async def _fetch(self, target: Target, what: str) -> bytes:
        try:
            answer = await self._http.exchange(target, _request(target))
        except TargetRefused as refused:
            raise errors.InvalidQrCode(f"emv: its {what} {refused.reason}") from None
        except ConnectionFailed as failure:
            _log.info("QR code location not read", host=target.host, reason=failure.detail)
            raise LocationUnreachable(f"{what}: {failure.reason}") from failure
        if answer.status_code >= 500:
            raise LocationUnreachable(f"{what}: answered {answer.status_code}")
        if answer.status_code != 200:
            _log.info("QR code location not read", host=target.host, reason=f"answered {answer.status_code}")
            # The status is named only for loopback: our address must not serve to probe other hosts.
            found = f"answered {answer.status_code} instead of 200" if target.is_loopback_allowed else "has no payload"
            raise errors.InvalidQrCode(f"emv: its {what} {found}")
        # A connection cuts a body that is too long without an error.
        length = answer.headers.get("content-length", "")
        if len(answer.body) > BODY_LENGTH_MAX or (length.isdecimal() and int(length[:20]) > BODY_LENGTH_MAX):
            raise errors.InvalidQrCode(f"emv: its {what} serves more than {BODY_LENGTH_MAX // 1024} KiB")
        if answer.error is not None:
            raise LocationUnreachable(f"{what}: {answer.error}")
        return answer.body


def _request(target: Target) -> bytes:
    lines = (
        f"GET {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "Accept: application/jose, application/jwk-set+json, application/json, */*",
        "Accept-Encoding: identity",
        "User-Agent: pixconnect",
        "\r\n",
    )
    return "\r\n".join(lines).encode("ascii")
