"""Charges and refunds at Woovi: named by the caller's correlationID, from which a charge's txid is derived.

Lists are by a number to skip and a number to show.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, TypeVar

from msgspec import Meta, Struct, field

from pixconnect.doors.api.decoding import read_instant
from pixconnect.doors.api.operation import Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import TXID, Members, Violations, is_storable
from pixconnect.features.pix_api.rules import ChargeSearch, Shown
from pixconnect.features.pix_api.service import charge as standard_charge_usecases
from pixconnect.features.pix_api.service import pix as pix_usecases
from pixconnect.features.pix_api.service.cents_records import name_charge, show_cents_charge, show_cents_refund
from pixconnect.features.pix_api.service.pix import Instante
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import refund as refund_usecases
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import PAID, PAYER_NAME_LENGTH_MAX, STATUSES, Charge, ChargeStatus
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, Line, Payer
from pixconnect.kernel.rules.listing import Page, Span
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.kernel.rules.refund import DESCRIPTION_LENGTH_MAX, Refund, RefundRequest, RefundStatus
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect_faces.frame import Face
from pixconnect_faces.refusals import NamedRefusal

_LIFETIME_S: Final = 30 * 86_400
_LIFETIME_MIN_S: Final = 300
_LIFETIME_MAX_S: Final = 2**31 - 1
_STATUSES: Final[dict[str, tuple[ChargeStatus, ...]]] = {
    "ACTIVE": ("PENDING",),
    "COMPLETED": ("APPROVED", "RETURNED"),
    "EXPIRED": ("EXPIRED", "REMOVED_BY_RECEIVER", "REMOVED_BY_PSP"),
}
_OF_CHARGE: Final = dict[RefundStatus, str]([("PROCESSING", "IN_PROCESSING"), ("RETURNED", "CONFIRMED"), ("ERROR", "REJECTED")])
"""A charge's refunds have other words for the same."""
_END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")
_REFUND_ID: Final = re.compile(r"[0-9a-f]{32}")
_ID_MAX: Final = 2**63 - 1
NAME: Final = re.compile(r"[^\x00]{1,200}", re.DOTALL)
_LIMIT: Final = 100
_SKIP_MAX: Final = 1_000_000

ItemT = TypeVar("ItemT")
CorrelationId = Annotated[str, Meta(min_length=1, max_length=200)]
Value = Annotated[int, Meta(ge=1, le=AMOUNT_MAX_CENTS)]


class LinhaPedida(Struct, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=50)]
    value: Annotated[str, Meta(max_length=200)]


class ClientePedido(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=PAYER_NAME_LENGTH_MAX)]
    tax_id: Annotated[str, Meta(max_length=18)] | None = field(default=None, name="taxID")


class CobrancaPedida(Struct, frozen=True, kw_only=True, rename="camel"):
    correlation_id: CorrelationId = field(name="correlationID")
    value: Value
    kind: Literal["DYNAMIC"] | None = field(default=None, name="type")
    comment: Annotated[str, Meta(max_length=140)] | None = None
    expires_in: Annotated[int, Meta(ge=_LIFETIME_MIN_S, le=_LIFETIME_MAX_S)] | None = None
    expires_date: Annotated[str, Meta(max_length=40)] | None = None
    debtor: ClientePedido | None = field(default=None, name="customer")
    lines: Annotated[list[LinhaPedida], Meta(max_length=50)] | None = field(default=None, name="additionalInfo")


class PrazoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    expires_date: Annotated[str, Meta(max_length=40)]


class ReplayQuery(Struct, frozen=True, kw_only=True):
    return_existing: bool | None = None


class SliceQuery(Struct, frozen=True, kw_only=True):
    skip: Annotated[int, Meta(ge=0, le=_SKIP_MAX)] | None = None
    limit: Annotated[int, Meta(ge=1, le=_LIMIT)] | None = None
    start: Instante | None = None
    end: Instante | None = None


class ChargeSliceQuery(SliceQuery, frozen=True, kw_only=True):
    status: str | None = None


class Slice(Struct, frozen=True, kw_only=True):
    skip: int
    limit: int
    start: datetime | None
    end: datetime | None

    def describe(self, total_count: int) -> Shown:
        """Describe the page in the member ``pageInfo``."""
        return {
            "skip": self.skip,
            "limit": self.limit,
            "totalCount": total_count,
            "hasPreviousPage": self.skip > 0,
            "hasNextPage": self.skip + self.limit < total_count,
        }

    async def read(self, read: Callable[[Span], Awaitable[Page[ItemT]]]) -> tuple[Sequence[ItemT], Shown]:
        """Read the items and the page; two of our pages if it begins within one."""
        # Our lists have pages: the skipped number need not be a multiple of these.
        number, within = divmod(self.skip, self.limit)
        page = await read(self._span(number))
        items = page.items[within:]
        if within:
            items += (await read(self._span(number + 1))).items[:within]
        return items, self.describe(page.total_count)

    def _span(self, number: int) -> Span:
        return Span(page=number + 1, page_size=self.limit, initial_at=self.start, final_at=self.end)


class EstornoDaCobranca(Struct, frozen=True, kw_only=True, rename="camel"):
    correlation_id: CorrelationId = field(name="correlationID")
    value: Value | None = None
    comment: Annotated[str, Meta(max_length=DESCRIPTION_LENGTH_MAX)] | None = None


class EstornoPedido(EstornoDaCobranca, frozen=True, kw_only=True, rename="camel"):
    end_to_end_id: Annotated[str, Meta(max_length=32)] = field(name="transactionEndToEndId")


async def create_charge(face: Face, services: Services, request: Asked) -> Shown:
    context, caller = services.context, request.caller
    body = request.body.under(CobrancaPedida, "charge", "")
    name = body.text("correlationID", pattern=NAME)
    amount_cents = body.integer("value", is_number=True)
    body.choice("type")
    comment, lifetime_s, expires_at = body.text("comment"), body.integer("expiresIn"), _read_expiry(body)
    payer = _read_debtor(body)
    entries = body.objects("additionalInfo") or ()
    lines = [Line(name=each.text("key") or "", value=each.text("value") or "") for each in entries]
    answers_existing = request.query.under(ReplayQuery, body.violations).boolean("return_existing")
    body.raise_if_any()
    txid = derive_txid(caller, name or "")
    # Of the two the seconds count, which depend on no clock of the caller's.
    if expires_at is not None and lifetime_s is None:
        lifetime_s = _measure(context.clock.now(), expires_at)
    contents = ChargeContents(
        lifetime_s=lifetime_s or _LIFETIME_S,
        amount_cents=amount_cents or 0,
        key=await _find_key(services, caller),
        payer=payer,
        question=comment or None,
        lines=tuple(lines),
        maker_name=name,
    )
    try:
        made = await standard_charge_usecases.put_charge(context, caller, txid, contents, is_new=True)
        charge = made.charge
    # The name is taken. With ``return_existing`` the caller gets the existing charge, even if this request differs.
    except errors.ExternalIdConflict:
        if not answers_existing:
            raise
        charge = await charge_usecases.read_charge_by_txid(context, caller, txid)
    shown = show_cents_charge(charge, services.base_url + face.prefix)
    return {"charge": shown, "correlationID": shown["correlationID"], "brCode": shown["brCode"]}


async def get_named_charge(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    request.query.refuse_hidden(charge.created_at)
    return {"charge": show_cents_charge(charge, services.base_url + face.prefix)}


async def list_charges(face: Face, services: Services, request: Asked) -> Shown:
    violations = Violations("charge")
    asked = read_slice(violations, request)
    status = request.query.under(ChargeSliceQuery, violations).choice("status", tuple(_STATUSES))
    violations.raise_if_any()
    search = ChargeSearch(statuses=STATUSES if status is None else _STATUSES[status])
    found, page = await asked.read(
        lambda span: standard_charge_usecases.search_charges(services.context, request.caller, search, span)
    )
    base_url = services.base_url + face.prefix
    return {"pageInfo": page, "charges": [show_cents_charge(each.charge, base_url) for each in found]}


async def change_expiry(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    body = request.body.under(PrazoPedido, "charge", "")
    expires_at = _read_expiry(body)
    if expires_at is not None and not 1 <= _measure(charge.created_at, expires_at) <= _LIFETIME_MAX_S:
        body.refuse("expiresDate", "deve ser depois de a cobrança ter sido criada, e menos de 68 anos")
    body.raise_if_any()
    # A charge's lifetime starts at its creation: a later end is a longer lifetime.
    lifetime_s = _measure(charge.created_at, expires_at or charge.expires_at)
    changed = await standard_charge_usecases.patch_charge(
        services.context, request.caller, charge.txid, ContentsChange(lifetime_s=lifetime_s)
    )
    return _acknowledge(charge) | {"expiresDate": format_milliseconds(changed.charge.expires_at)}


async def remove_charge(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    await standard_charge_usecases.patch_charge(services.context, request.caller, charge.txid, ContentsChange(), removes=True)
    return _acknowledge(charge)


async def pay_in_test(face: Face, services: Services, request: Asked) -> Shown:
    txid = request.query.read(("transactionID",)).get("transactionID", "")
    if not TXID.fullmatch(txid):
        raise errors.NotFound("transactionID: there is no such charge")
    context, caller = services.context, request.caller
    charge = await charge_usecases.read_charge_by_txid(context, caller, txid)
    paid = await sandbox_usecases.pay_by_code(context, caller, charge.br_code, None)
    if paid.status == "ERROR":
        raise NamedRefusal("NOT_PAID", f"o pagamento foi recusado ({paid.code})")
    return _acknowledge(charge)


def _acknowledge(charge: Charge) -> dict[str, object]:
    return {"status": "OK", "id": name_charge(charge)}


async def find_named_charge(services: Services, caller: Caller, name: str) -> Charge:
    """Find a charge by its maker's name, by its txid, or by its name in another API."""
    context = services.context
    try:
        return await charge_usecases.read_charge_by_txid(context, caller, derive_txid(caller, name))
    except errors.NotFound:
        pass
    try:
        return await charge_usecases.read_charge_by_external_id(context, caller, name)
    except errors.NotFound:
        return await charge_usecases.read_charge_by_txid(context, caller, name)


def derive_txid(caller: Caller, name: str) -> str:
    """Derive the txid from the caller's name, so that a charge is found by it and a second one of that name is refused."""
    return hashlib.blake2b(f"{caller.holder_id}/{name}".encode(), digest_size=16).hexdigest()


def _read_expiry(body: Members) -> datetime | None:
    text = body.text("expiresDate")
    try:
        return None if text is None else read_instant("expiresDate", text)
    except errors.BadRequest:
        return body.refuse("expiresDate", "deve ser um instante, como 2026-01-31T12:00:00.000Z")


def _measure(begin: datetime, end: datetime) -> int:
    return int((end - begin) / timedelta(seconds=1))


def _read_debtor(body: Members) -> Payer | None:
    debtor = body.object("customer")
    if debtor is None:
        return None
    name, text = debtor.text("name"), debtor.text("taxID")
    number = None if text is None else "".join(letter for letter in text if letter not in "./- ")
    if number is not None and not tax_id.is_cpf(number) and not tax_id.is_cnpj(number):
        return debtor.refuse("taxID", "deve ser um CPF ou CNPJ")
    return None if name is None or number is None else Payer(name=name, tax_id=number)


async def _find_key(services: Services, caller: Caller) -> str:
    keys = await holder_usecases.list_pix_keys(services.context, caller.holder_id)
    if not keys:
        raise NamedRefusal("NO_KEY", "a conta não tem chave Pix")
    return keys[0].key


async def refund_charge(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    if charge.status not in PAID:
        raise errors.OriginalNotRefundable("id: the charge was not paid")
    paying = await charge_usecases.read_paying_transfer(services.context, request.caller, charge.id)
    body = request.body.under(EstornoDaCobranca, "refund", "")
    refund = await _start(face, services, request, body, paying)
    return {"refund": show_cents_refund(refund, _OF_CHARGE)}


async def refund_pix(face: Face, services: Services, request: Asked) -> Shown:
    body = request.body.under(EstornoPedido, "refund", "")
    name = body.text("transactionEndToEndId", pattern=_END_TO_END_ID)
    body.raise_if_any()
    received = await pix_usecases.find_received(services.context, request.caller, name or "")
    return {"refund": show_cents_refund(await _start(face, services, request, body, received))}


async def _start(face: Face, services: Services, request: Asked, body: Members, received: Transfer) -> Refund:
    name = body.text("correlationID", pattern=NAME)
    value, comment = body.integer("value", is_number=True), body.text("comment")
    body.raise_if_any()
    context, caller = services.context, request.caller
    try:
        known = await refund_usecases.read_refund_by_external_id(context, caller, name or "")
    except errors.NotFound:
        known = None
    if known is not None and face.choose(services, "repeated_refund") == "refused":
        raise errors.ExternalIdConflict("correlationID: was already used for a refund")
    # Without a value it is the rest; a replay gets its original value.
    rest = received.amount_cents - received.returned_cents - received.returning_cents
    left = rest if known is None else known.amount_cents
    asked = RefundRequest(
        end_to_end_id=received.end_to_end_id, amount_cents=value or left, external_id=name, description=comment or None
    )
    if not asked.amount_cents:
        raise errors.OriginalNotRefundable("value: nothing is left to return")
    return await refund_usecases.start_refund(context, caller, asked)


async def get_named_refund(face: Face, services: Services, request: Asked) -> Shown:
    name = read_name(request)
    context, caller = services.context, request.caller
    try:
        found = await refund_usecases.read_refund_by_external_id(context, caller, name)
    except errors.NotFound:
        # A number beyond the largest matches nothing, and the database would refuse it.
        is_id = _REFUND_ID.fullmatch(name) and int(name, 16) <= _ID_MAX
        if not is_id or face.choose(services, "refund_by_id") == "absent":
            raise
        found = await refund_usecases.read_refund_by_id(context, caller, int(name, 16))
    request.query.refuse_hidden(found.created_at)
    return {"pixTransactionRefund": show_cents_refund(found)}


async def list_charge_refunds(face: Face, services: Services, request: Asked) -> Shown:
    charge = await find_named_charge(services, request.caller, read_name(request))
    found: Sequence[Refund] = ()
    if charge.status in PAID:
        paying = await charge_usecases.read_paying_transfer(services.context, request.caller, charge.id)
        found = await pix_usecases.list_refunds_of_pix(services.context.pool, paying)
    shown = [refund for refund in found if not request.query.hides(refund.created_at)]
    return {"refunds": [show_cents_refund(refund, _OF_CHARGE) for refund in shown]}


async def list_refunds(face: Face, services: Services, request: Asked) -> Shown:
    asked = read_only_slice("refund", request)
    found, page = await asked.read(lambda span: refund_usecases.list_refunds(services.context, request.caller, None, span))
    return {"pageInfo": page, "refunds": [show_cents_refund(refund) for refund in found]}


def read_only_slice(entity: str, request: Asked) -> Slice:
    """Read the slice of a list without other parameters; raises ``Violated``."""
    violations = Violations(entity)
    asked = read_slice(violations, request)
    violations.raise_if_any()
    return asked


def read_slice(violations: Violations, request: Asked) -> Slice:
    parameters = request.query.under(SliceQuery, violations)
    start, end = parameters.instant("start"), parameters.instant("end")
    if start is not None and end is not None and end < start:
        parameters.refuse("end", "não pode ser anterior a start")
    skip, limit = parameters.integer("skip"), parameters.integer("limit")
    return Slice(skip=skip or 0, limit=limit or _LIMIT, start=start, end=end)


def read_name(request: Asked) -> str:
    """Read the name in the path; an impossible name is not found."""
    (name,) = request.parameter
    if not NAME.fullmatch(name) or not is_storable(name):
        raise errors.NotFound("id: there is nothing of this name")
    return name
