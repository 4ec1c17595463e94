"""Sending at Woovi: a payment is created, which moves nothing, and approved, by the same name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field, structs

from pixconnect.doors.api.operation import Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Members, Violations
from pixconnect.features.pix_api.rules import Shown
from pixconnect.features.pix_api.service.cents_records import ACCOUNT_WORDS, show_destination, show_movement, show_order
from pixconnect.features.prepared_transfers import service as prepared_usecases
from pixconnect.features.prepared_transfers.rules import PreparedTransfer
from pixconnect.features.prepared_transfers.service import Approval
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.holder import (
    ACCOUNT_DIGITS,
    BRANCH,
    ISPB,
    KEY_LENGTH_MAX,
    AccountType,
    Party,
    PixKey,
    parse_pix_key,
)
from pixconnect.kernel.rules.transfer import MESSAGE_LENGTH_MAX
from pixconnect.platform.base import errors
from pixconnect_faces.frame import Face, make_party, read_own
from pixconnect_faces.refusals import NamedRefusal
from pixconnect_faces.woovi.charge import NAME, CorrelationId, Value, read_name, read_only_slice

_OF_ACCOUNT: Final = ("psp", "holder", "account")
_ACCOUNT_TYPES: Final[Mapping[str, AccountType]] = {word: kind for kind, word in ACCOUNT_WORDS.items()}


class DocumentoPedido(Struct, frozen=True, kw_only=True):
    kind: Literal["BR:CPF", "BR:CNPJ"] = field(name="type")
    number: Annotated[str, Meta(max_length=18)] = field(name="taxID")


class TitularPedido(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    tax_id: DocumentoPedido = field(name="taxID")


class ContaPedida(Struct, frozen=True, kw_only=True, rename="camel"):
    account: Annotated[str, Meta(max_length=20)]
    branch: Annotated[str, Meta(max_length=4)]
    account_type: Literal["CACC", "SVGS", "SLRY", "TRAN"]


class InstituicaoPedida(Struct, frozen=True, kw_only=True):
    ispb: Annotated[str, Meta(max_length=8)] = field(name="id")


class PagamentoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    """Por ``type``: a chave, o código, ou a conta com o dono."""

    kind: Literal["PIX_KEY", "QR_CODE", "MANUAL"] | None = field(default=None, name="type")
    value: Value | None = None
    correlation_id: CorrelationId = field(name="correlationID")
    comment: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    auto_approve: bool | None = None
    destination_alias: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)] | None = None
    destination_alias_type: Literal["CPF", "CNPJ", "EMAIL", "PHONE", "RANDOM"] | None = None
    qr_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)] | None = None
    psp: InstituicaoPedida | None = None
    holder: TitularPedido | None = None
    account: ContaPedida | None = None


class PagamentoAprovado(Struct, frozen=True, kw_only=True):
    correlation_id: CorrelationId = field(name="correlationID")


def _read_order(face: Face, services: Services, request: Asked) -> tuple[PreparedTransfer, bool]:
    """Read the requested send, and whether it is approved at once; an amount of 0 is the code's own."""
    violations, members = Violations("payment"), request.body.require("payment")
    psp_form = face.choose(services, "psp")  # how an institution is named: ``object``, ``text`` or ``either``
    # One source has only the institution's number, and another an object with it.
    psp = members.get("psp")
    has_other_form = psp is not None and psp_form == ("object" if isinstance(psp, str) else "text")
    if isinstance(psp, str):
        members = {**members, "psp": {"id": psp}}
    body = Members(violations, PagamentoPedido, members, "")
    if has_other_form:
        body.refuse("psp", "não tem a forma esperada")
    # Older programs leave it out.
    usual = "QR_CODE" if body.has("qrCode") else "MANUAL" if body.has("account") else "PIX_KEY"
    kind = body.choice("type") or usual
    name, amount_cents = body.text("correlationID", pattern=NAME), body.integer("value", is_number=True)
    if name == "approve":
        body.refuse("correlationID", "não pode ser approve: por este caminho se aprova")
    if amount_cents is None and kind != "QR_CODE" and not body.has("value"):
        body.refuse("value", "é obrigatório")
    comment, auto_approve = body.text("comment"), body.boolean("autoApprove")
    code = body.text("qrCode") if kind == "QR_CODE" else None
    if kind == "QR_CODE" and not body.has("qrCode"):
        body.refuse("qrCode", "é obrigatório")
    key = _read_key(body) if kind == "PIX_KEY" else None
    account = _read_account(body) if kind == "MANUAL" else None
    violations.raise_if_any()
    prepared = PreparedTransfer(
        holder_id=request.caller.holder_id,
        external_id=name or "",
        initiation_type="MANUAL" if account else "QRCODE" if code else "KEY",
        amount_cents=amount_cents or 0,
        key=key and key.key,
        key_type=key and key.key_type,
        br_code=code,
        counterparty=account,
        payer_message=comment or None,
        created_at=services.context.clock.now(),
    )
    return prepared, auto_approve or False


def _read_key(body: Members) -> PixKey | None:
    key, kind = body.pix_key("destinationAlias"), body.choice("destinationAliasType")
    if not body.has("destinationAlias"):
        body.refuse("destinationAlias", "é obrigatório")
    if key is not None and kind is not None and key.key_type != dict(RANDOM="EVP").get(kind, kind):
        return body.refuse("destinationAliasType", f"a chave é do tipo {key.key_type}")
    return key


def _read_account(body: Members) -> Party | None:
    institution, holder, account = (body.object(name) for name in _OF_ACCOUNT)
    for name in _OF_ACCOUNT:
        if not body.has(name):
            body.refuse(name, "é obrigatório")
    ispb = institution and institution.text("id", pattern=ISPB)
    name = holder and holder.text("name")
    owner = holder and _read_owner(holder)
    number = account and account.text("account", pattern=ACCOUNT_DIGITS)
    branch = account and account.text("branch", pattern=BRANCH)
    kind = account and account.choice("accountType")
    return make_party(_ACCOUNT_TYPES, name=name, owner=owner, ispb=ispb, branch=branch, number=number, kind=kind)


def _read_owner(holder: Members) -> str | None:
    document = holder.object("taxID")
    if document is None:
        return None
    kind, text = document.choice("type"), document.text("taxID")
    number = None if text is None else "".join(letter for letter in text if letter not in "./- ")
    is_right = {"BR:CPF": tax_id.is_cpf, "BR:CNPJ": tax_id.is_cnpj}.get(kind or "", tax_id.is_cpf)
    if number is not None and not is_right(number):
        return document.refuse("taxID", "deve ser um CPF ou CNPJ, como type diz")
    return number


async def prepare_send(face: Face, services: Services, request: Asked) -> Shown:
    """Cria um pagamento, que espera uma aprovação ou já a tem."""
    prepared, is_approved = _read_order(face, services, request)
    context, caller = services.context, request.caller
    if not prepared.amount_cents:
        amount_cents = await payee_usecases.read_code_amount(context, caller, prepared.br_code or "")
        prepared = structs.replace(prepared, amount_cents=amount_cents)
    prepared = _choose_test_payee(face, prepared)
    payee = await prepared_usecases.prepare_transfer(context, caller, prepared)
    if not is_approved:
        waiting = {"payment": show_order(prepared, face.profile.sent.statuses["WAITING"])}
        return waiting if prepared.br_code is None else {**waiting, "destination": show_destination(payee)}
    try:
        approval = await prepared_usecases.approve_transfer(context, caller, prepared.external_id, is_new=False)
    except errors.InsufficientFunds:
        raise NamedRefusal("FUNDS_AT_ONCE", "value: é maior que o saldo disponível") from None
    shown = await _show_approved(face, services, caller, approval)
    return {"payment": shown["payment"]} if face.choose(services, "auto_approve_answer") == "payment_only" else shown


async def approve_send(face: Face, services: Services, request: Asked) -> Shown:
    """Aprova um pagamento criado antes: só agora o dinheiro sai."""
    body = request.body.under(PagamentoAprovado, "payment", "")
    name = body.text("correlationID", pattern=NAME)
    body.raise_if_any()
    is_new = face.choose(services, "approve_again") == "refused"
    try:
        approval = await prepared_usecases.approve_transfer(services.context, request.caller, name or "", is_new=is_new)
    except errors.ExternalIdConflict:
        raise NamedRefusal("APPROVED_BEFORE", "correlationID: o pagamento já foi aprovado") from None
    return await _show_approved(face, services, request.caller, approval)


async def get_send(face: Face, services: Services, request: Asked) -> Shown:
    try:
        found = await prepared_usecases.find_prepared(services.context, request.caller, read_name(request))
    except errors.NotFound:
        if face.choose(services, "unknown_payment") == "absent":
            raise NamedRefusal("ABSENT", "não existe este pagamento") from None
        raise
    request.query.refuse_hidden(found.prepared.created_at)
    return _show(face, found, await read_own(services, request.caller))


async def list_sends(face: Face, services: Services, request: Asked) -> Shown:
    """Lista pagamentos, do mais novo ao mais antigo, por quando foram criados."""
    asked = read_only_slice("payment", request)
    context, caller = services.context, request.caller
    found, page = await asked.read(lambda span: prepared_usecases.list_prepared(context, caller, span))
    own = await read_own(services, caller)
    return {"pageInfo": page, "status": "OK", "payments": [_show(face, each, own) for each in found]}


def _choose_test_payee(face: Face, prepared: PreparedTransfer) -> PreparedTransfer:
    rules, account = face.profile.homologation, prepared.counterparty
    if not face.is_homologation or account is None or account.account_number not in rules.rejected_accounts:
        return prepared
    # The sandbox has keys that are rejected, which are paid in place of the account.
    code, *rejected_as = rules.rejected_accounts[account.account_number]
    key = parse_pix_key(rules.rejected_key.format(code=code.lower()))
    return structs.replace(prepared, key=key.key, key_type=key.key_type, rejected_as=rejected_as[0] if rejected_as else None)


async def _show_approved(face: Face, services: Services, caller: Caller, approval: Approval) -> Shown:
    # In any state: the outcome is reported later.
    taken = face.profile.sent.statuses["TAKEN"]
    return {**_show(face, approval, await read_own(services, caller)), "payment": show_order(approval.prepared, taken)}


def _show(face: Face, found: Approval, own: Party) -> Shown:
    words, transfer, prepared = face.profile.sent, found.transfer, found.prepared
    if transfer is None:
        return {"payment": show_order(prepared, words.statuses["WAITING"])}
    return {
        "payment": show_order(prepared, words.choose_word(transfer.status, transfer.outcome_code)),
        "transaction": show_movement(transfer, own),
        "destination": show_destination(prepared.counterparty or transfer.counterparty),
    }
