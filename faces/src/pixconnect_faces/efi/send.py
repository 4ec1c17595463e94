"""Sending at Efi: under the caller's own name, which can be used once, and queried afterwards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, field, structs

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api import frame
from pixconnect.features.pix_api.api.charge_records import Cnpj, Cpf, Reais
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Members
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.pix_api.service.send_record import STATUSES, find_returns, find_sent
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules import holder, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.holder import ACCOUNT_DIGITS, BRANCH, ISPB, KEY_LENGTH_MAX, AccountType, Party, PixKey
from pixconnect.kernel.rules.listing import TransferSearch
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.transfer import (
    MESSAGE_LENGTH_MAX,
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    SendingTerms,
    Transfer,
    TransferRequest,
    TransferStatus,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.base.errors import Violation
from pixconnect_faces.efi.homologation import give_back_later
from pixconnect_faces.frame import Face, make_party, read_own
from pixconnect_faces.refusals import NamedRefusal

ACCOUNT_TYPES: Final = dict[str, AccountType](cacc="CHECKING", svgs="SAVINGS")
_Chave = Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]


class Pagador(Struct, frozen=True, kw_only=True, rename="camel"):
    chave: _Chave
    payer_message: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = field(default=None, name="infoPagador")


class ContaDoFavorecido(Struct, frozen=True, kw_only=True, rename="camel"):
    nome: Annotated[str, Meta(min_length=1, max_length=200)]
    cpf: Cpf | None = None
    cnpj: Cnpj | None = None
    codigo_banco: Annotated[str, Meta(max_length=8)]
    agencia: Annotated[str, Meta(max_length=4)]
    conta: Annotated[str, Meta(max_length=20)]
    tipo_conta: Literal["cacc", "svgs"]


class FavorecidoDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    chave: _Chave
    """Ou ``conta_banco``."""
    cpf: Cpf | None = None
    cnpj: Cnpj | None = None
    conta_banco: ContaDoFavorecido | None = None


class EnvioSolicitado(Struct, frozen=True, kw_only=True):
    valor: Reais
    pagador: Pagador
    favorecido: FavorecidoDoPedido


class EnvioDeCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    pagador: Pagador
    pix_copia_e_cola: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


class OrderPayer(Struct, frozen=True):
    id_envio: str
    key: str
    message: str | None


def _read_payer(body: Members, request: Asked) -> OrderPayer:
    (id_envio,) = request.parameter
    if not _ID.fullmatch(id_envio):
        body.violations.add("idEnvio", "deve ter de 1 a 35 letras e dígitos", id_envio)
    payer = body.object("pagador")
    key = None if payer is None else payer.text("chave")
    message = None if payer is None else payer.text("infoPagador")
    return OrderPayer(id_envio, key or "", message)


def _read_payee(body: Members) -> tuple[PixKey | None, str | None, Party | None]:
    """Read the payee's key and the owner that it must have, or the account."""
    payee = body.object("favorecido")
    if payee is None:
        return None, None, None
    account = payee.object("contaBanco")
    owner = payee.tax_id("cpf") or payee.tax_id("cnpj")
    if account is not None:
        return None, None, _read_account(account)
    return payee.pix_key("chave"), owner, None


def _read_account(account: Members) -> Party | None:
    name = account.text("nome")
    cpf, cnpj = account.tax_id("cpf"), account.tax_id("cnpj")
    if not account.has("cpf") and not account.has("cnpj"):
        account.refuse("cpf", "ou cnpj é obrigatório")
    ispb = account.text("codigoBanco", pattern=ISPB)
    branch = account.text("agencia", pattern=BRANCH)
    number = account.text("conta", pattern=ACCOUNT_DIGITS)
    kind = account.choice("tipoConta")
    owner = cpf or cnpj
    return make_party(ACCOUNT_TYPES, name=name, owner=owner, ispb=ispb, branch=branch, number=number, kind=kind)


_ID: Final = re.compile(r"[a-zA-Z0-9]{1,35}")
_END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")
# Errors of the code alone; other refusals keep their own answers.
_OF_THE_CODE: Final = (
    errors.InvalidQrCode,
    errors.QrCodeExpired,
    errors.QrCodeAlreadyPaid,
    errors.PixKeyNotFound,
    errors.SameAccount,
)
# The documentation and the library have different words for a completed one.
_SEARCHED: Final = dict[str, TransferStatus](
    EM_PROCESSAMENTO="PROCESSING", CONCLUIDA="CONFIRMED", REALIZADO="CONFIRMED", NAO_REALIZADO="ERROR"
)


class SentQuery(frame.PeriodQuery, frozen=True, kw_only=True):
    status: str | None = None


async def send_pix(face: Face, services: Services, request: Asked, *, is_to_own_account: bool = False) -> Reply:
    body = request.body.under(EnvioSolicitado, "pix", "")
    amount_cents = body.amount("valor")
    if amount_cents == 0:
        body.refuse("valor", "deve ser maior que zero")
    payer, (key, named, account) = _read_payer(body, request), _read_payee(body)
    body.raise_if_any()
    payer = await _check_payer(face, services, request.caller, payer)
    asked = _make_request(face, services, payer.id_envio, amount_cents or 0, account or key)
    owner = (await read_own(services, request.caller)).tax_id if is_to_own_account else named
    if named not in (None, owner):
        raise NamedRefusal("PAYEE_IS_ANOTHER", "favorecido: não é o titular desta conta")
    return await _send(face, services, request.caller, payer, asked, owner)


async def pay_code(face: Face, services: Services, request: Asked) -> Reply:
    """Paga um código no valor que ele pede."""
    face.refuse_in_tests("SWITCHED_OFF")
    body = request.body.under(EnvioDeCodigo, "qrcode")
    payer, code = _read_payer(body, request), body.text("pixCopiaECola") or ""
    body.raise_if_any()
    payer = await _check_payer(face, services, request.caller, payer)
    try:
        amount_cents = await payee_usecases.read_code_amount(services.context, request.caller, code)
        asked = QrCodeTransferRequest(amount_cents=amount_cents, br_code=code, external_id=payer.id_envio)
        return await _send(face, services, request.caller, payer, asked, None)
    except _OF_THE_CODE as refusal:
        kind = dict(invalid="CODE", unprocessable="CODE_READ")[face.choose(services, "refused_code")]
        row = Violation(property="qrcode.pixCopiaECola", reason=refusal.message)
        raise NamedRefusal(kind, "o código não pode ser pago", [row]) from None


async def _send(
    face: Face, services: Services, caller: Caller, payer: OrderPayer, asked: TransferRequest, payee_tax_id: str | None
) -> Reply:
    terms = SendingTerms(payer_key=payer.key, payer_message=payer.message, payee_tax_id=payee_tax_id, is_new=True)
    try:
        view = await transfer_usecases.start_transfer(services.context, caller, asked, terms)
    except transfer_usecases.PayeeIsAnother:
        raise NamedRefusal("PAYEE_IS_ANOTHER", "favorecido: a chave é de outro documento") from None
    except errors.InsufficientFunds:
        if isinstance(asked, QrCodeTransferRequest):
            row = Violation(property="qrcode.pagador", reason="Saldo insuficiente para realizar o pagamento")
            raise NamedRefusal("FUNDS", row.reason, [row]) from None
        kind = dict(invalid="FUNDS", denied="DENIED")[face.choose(services, "insufficient_funds")]
        raise NamedRefusal(kind, "valor: é maior que o saldo disponível") from None
    transfer = view.transfer
    give_back_later(face, services, caller, transfer)
    record = {
        "idEnvio": payer.id_envio,
        # The documentation and the library have different names for it.
        "e2eId": transfer.shown_id,
        "endToEndId": transfer.shown_id,
        "valor": format_reais(transfer.amount_cents),
        "horario": {"solicitacao": format_milliseconds(transfer.created_at)},
        # In any state: the outcome is reported later.
        "status": "EM_PROCESSAMENTO",
    }
    return Reply(status=201, record=record)


async def _check_payer(face: Face, services: Services, caller: Caller, payer: OrderPayer) -> OrderPayer:
    """Return the payer with the caller's key, which must have a webhook for the outcome."""
    # Otherwise a used name is refused only after all other errors of the request.
    is_first = face.choose(services, "repeat_checked") == "first"
    if is_first and await find_sent(services.context, caller, id_envio=payer.id_envio) is not None:
        raise errors.ExternalIdConflict("idEnvio: was already used")
    try:
        key = holder.parse_pix_key(payer.key).key
        await key_webhook_usecases.read_webhook(services.context, caller, key)
    except (errors.InvalidPixKey, errors.NotFound):
        raise NamedRefusal("KEY", "pagador.chave: não é uma chave desta conta que tem webhook") from None
    return structs.replace(payer, key=key)


def _make_request(
    face: Face, services: Services, id_envio: str, amount_cents: int, payee: Party | PixKey | None
) -> TransferRequest:
    if isinstance(payee, Party):
        return AccountTransferRequest(amount_cents=amount_cents, credit_party=payee, external_id=id_envio)
    key = errors.require(payee, "a payee has a key or an account")
    if face.is_homologation:
        key = _find_test_payee(face, services, key, amount_cents)
    return KeyTransferRequest(amount_cents=amount_cents, key=key.key, key_type=key.key_type, external_id=id_envio)


def _find_test_payee(face: Face, services: Services, key: PixKey, amount_cents: int) -> PixKey:
    """Return the payee of the test environment's one key, by the amount."""
    rules = face.profile.homologation
    if key.key != rules.test_key:
        raise errors.PixKeyNotFound("favorecido.chave: only the test key exists there")
    if amount_cents > rules.rejected_cents_max:
        kind = dict(denied="DENIED", invalid="AMOUNT")[face.choose(services, "above_limit")]
        raise NamedRefusal(kind, "valor: passa do que o ambiente de testes envia")
    is_done = amount_cents <= rules.sent_cents_max
    return holder.parse_pix_key(rules.settled_key if is_done else rules.rejected_key)


async def list_sent(face: Face, services: Services, request: Asked) -> Shown:
    """Lista envios, do mais novo ao mais antigo, pelo instante em que foram pedidos."""
    parameters = request.query.under(SentQuery, "pix")
    interval = frame.read_interval(parameters)
    status = parameters.choice("status", tuple(_SEARCHED))
    page = frame.read_page(parameters)
    parameters.raise_if_any()
    search = TransferSearch(direction="OUT", status=None if status is None else _SEARCHED[status])
    found = await transfer_usecases.search_transfers(services.context, request.caller, search, frame.make_span(interval, page))
    sent = [view.transfer for view in found.items]
    returns = await find_returns(services.context, sent)
    parametros = frame.describe(interval, page, found.total_count, frame.Parametros)
    shown = [_show_sent(face, services, transfer, returns.get(transfer.id)) for transfer in sent]
    return {"parametros": parametros, "pix": shown}


async def get_sent(member: str, face: Face, services: Services, request: Asked) -> Shown:
    """Consulta um envio por seu nome ``id_envio`` ou ``end_to_end_id``."""
    (name,) = request.parameter
    form = _ID if member == "id_envio" else _END_TO_END_ID
    is_name = form.fullmatch(name) is not None
    found = await find_sent(services.context, request.caller, **{member: name}) if is_name else None
    found = errors.found(found, "there is no such sent Pix")
    return _show_sent(face, services, found, (await find_returns(services.context, [found])).get(found.id))


def _show_sent(face: Face, services: Services, transfer: Transfer, returns: Sequence[Shown] | None) -> Shown:
    settled_at = date_settled(transfer.settled_at, transfer.network_settled_at)
    times = dict(solicitacao=transfer.created_at, liquidacao=settled_at)
    return without_none(
        {
            "endToEndId": transfer.shown_id,
            "idEnvio": transfer.external_id or "",
            "valor": format_reais(transfer.amount_cents),
            "chave": transfer.own_key,
            "status": STATUSES[transfer.status],
            "infoPagador": transfer.payer_message,
            "horario": {name: format_milliseconds(at) for name, at in times.items() if at is not None},
            "favorecido": _show_payee(face, services, transfer.counterparty),
            "devolucoes": returns or None,
        }
    )


def _show_payee(face: Face, services: Services, payee: Party) -> Shown:
    rules = face.profile.homologation
    if face.is_homologation and payee.key in (rules.settled_key, rules.rejected_key):
        return {"chave": rules.test_key}
    owner = {"nome": payee.name}
    if tax_id.is_cpf(payee.tax_id):
        owner["cpf"] = tax_id.mask_cpf(payee.tax_id)
    elif tax_id.is_cnpj(payee.tax_id):
        owner["cnpj"] = payee.tax_id
    if payee.key is not None:
        is_named = face.choose(services, "payee_named") == "yes"
        return {"chave": payee.key, **({"identificacao": owner} if is_named else {})}
    kind = next((shown for shown, ours in ACCOUNT_TYPES.items() if ours == payee.account_type), "cacc")
    return {"contaBanco": {**owner, "agencia": payee.branch, "conta": payee.account_number, "tipoConta": kind}}
