"""Sending at Sicoob, in two steps: the first returns the end-to-end id and moves nothing, the second pays.

An account or a code is paid in one step, without an id in advance: if the answer is lost, only the statement has it.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Final, Literal, cast

from msgspec import Meta, Struct, field

from pixconnect.doors.api.operation import Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Members
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service.send_record import find_sent
from pixconnect.features.prepared_transfers import service as initiated_usecases
from pixconnect.features.prepared_transfers.rules import InitiatedTransfer
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules import br_code, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.holder import ACCOUNT_DIGITS, BRANCH, ISPB, SENT_LENGTH_MAX, AccountType, Party
from pixconnect.kernel.rules.listing import Span, TransferSearch
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import date_settled
from pixconnect.kernel.rules.transfer import (
    MESSAGE_LENGTH_MAX,
    AccountTransferRequest,
    QrCodeTransferRequest,
    SendingTerms,
    Transfer,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds, to_day
from pixconnect_faces.frame import Face, make_party, parse_day, read_own
from pixconnect_faces.refusals import NamedRefusal

END_TO_END_ID: Final = re.compile(r"[a-zA-Z0-9]{32}")
ACCOUNT_WORDS: Final = dict[str, AccountType](
    CORRENTE="CHECKING", POUPANCA="SAVINGS", SALARIO="SALARY", CONTAPAGAMENTO="TRANSACTIONAL"
)
_WITH_COMMA: Final = re.compile(r"([0-9]{1,18})(?:,([0-9]{1,2}))?")
_WITH_POINT: Final = re.compile(r"([0-9]{1,16})\.([0-9]{2})")
_DIGITS_MAX: Final = 15
"""Maximum length of cents."""
_MISSING: Final = "a missing value is a violation"
_KEY_WORDS: Final = dict(CPF="CPF", CNPJ="CNPJ", EMAIL="EMAIL", PHONE="TELEFONE", EVP="EVP")
_NAME_MAX: Final = 120
_COMPARED_MAX: Final = 100
_LOOKED_AT_MAX: Final = 500
"""The newest transfers of either direction that are scanned: no index has only sent ones."""
_COMPARED_FOR: Final = timedelta(days=1)

Day = Annotated[str, Meta(max_length=10)]


class ContaDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    ispb: Annotated[str, Meta(max_length=8)]
    cpf_cnpj: Annotated[str, Meta(max_length=14)]
    nome: Annotated[str, Meta(min_length=1, max_length=150)]
    conta: Annotated[str, Meta(max_length=20)]
    agencia: Annotated[str, Meta(max_length=4)]
    tipo: Literal["CORRENTE", "POUPANCA", "SALARIO", "CONTAPAGAMENTO"]


class IniciacaoSolicitada(Struct, frozen=True, kw_only=True):
    chave: Annotated[str, Meta(max_length=SENT_LENGTH_MAX)]
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")


class ConfirmacaoSolicitada(Struct, frozen=True, kw_only=True, rename="camel"):
    meio_iniciacao: Literal["CHAVE", "MANUAL", "QRCODE"]
    valor: Annotated[str, Meta(max_length=21)]
    end_to_end_id: Annotated[str, Meta(max_length=32)] | None = None
    descricao: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    repeticao: bool | None = None
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")
    origem: ContaDoPedido | None = None
    destino: ContaDoPedido | None = None


class FavorecidoDoCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    cpf_cnpj: Annotated[str, Meta(max_length=14)]


class PagamentoDeCodigo(Struct, frozen=True, kw_only=True, rename="camel"):
    br_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)] = field(name="qrcode")
    valor: Annotated[str, Meta(max_length=19)]
    repeticao: bool
    pays_charges: bool = field(name="pagarComJurosMulta")
    scheduled_day: Day | None = field(default=None, name="dataAgendamento")
    origem: ContaDoPedido
    destino: FavorecidoDoCodigo


def read_amount(body: Members, *, has_comma: bool) -> int | None:
    """Read the cents of ``valor``; ``199`` is 199 reais if a comma may be left out."""
    text = body.text("valor")
    if text is None:
        return None
    found = (_WITH_COMMA if has_comma else _WITH_POINT).fullmatch(text)
    if found is None:
        form = "vírgula, como 1,99" if has_comma else "ponto e 2 decimais, como 1.99"
        return body.refuse("valor", f"deve ser um texto com reais e {form}")
    digits = found[1] + (found[2] or "").ljust(2, "0")
    if len(digits) > _DIGITS_MAX or int(digits) == 0:
        return body.refuse("valor", "deve ser maior que zero e menor que dez trilhões de reais")
    return int(digits)


def read_payee_account(body: Members) -> Party | None:
    """Read the account in ``destino``, with all its members."""
    payee = body.object("destino")
    if payee is None:
        if not body.has("destino"):
            body.refuse("destino", "é obrigatório quando meioIniciacao é MANUAL")
        return None
    name, owner = payee.text("nome"), payee.cpf_or_cnpj("cpfCnpj")
    ispb = payee.text("ispb", pattern=ISPB)
    branch = payee.text("agencia", pattern=BRANCH)
    number = payee.text("conta", pattern=ACCOUNT_DIGITS)
    kind = payee.choice("tipo")
    return make_party(ACCOUNT_WORDS, name=name, owner=owner, ispb=ispb, branch=branch, number=number, kind=kind)


def check_given(body: Members, member: str, known: Party) -> None:
    """Refuse an ``origem`` or ``destino`` that contradicts the known account; omitted members are not compared."""
    given = body.object(member) if body.has(member) else None
    if given is None:
        return
    held = {"cpfCnpj": known.tax_id, "conta": known.account_number, "agencia": known.branch}
    for name, expected in held.items():
        sent = given.text(name) if given.has(name) else None
        # Some write an account with leading zeros.
        if sent is not None and sent.lstrip("0") != expected.lstrip("0"):
            given.refuse(name, "não é o da conta")


async def initiate(face: Face, services: Services, request: Asked) -> Shown:
    """Consulta a chave e dá nome ao pagamento; nada é movido."""
    body = request.body.under(IniciacaoSolicitada, "pagamento", "")
    key = body.pix_key("chave")
    _check_day(services, body)
    body.raise_if_any()
    key = errors.require(key, _MISSING)
    try:
        initiated = await initiated_usecases.initiate_transfer(services.context, request.caller, key)
    except errors.PixKeyNotFound:
        if face.choose(services, "unknown_key") == "not_found":
            raise errors.NotFound("chave: não foi encontrada") from None
        raise
    owner = initiated.counterparty
    return {
        "endToEndId": initiated.end_to_end_id,
        "chave": key.key,
        "tipo": _KEY_WORDS[key.key_type],
        "proprietario": {
            "tipo": "FISICO" if tax_id.is_cpf(owner.tax_id) else "JURIDICO",
            "nome": owner.name[:_NAME_MAX],
            "identificador": owner.tax_id,
        },
    }


async def confirm(face: Face, services: Services, request: Asked) -> Shown:
    context, caller = services.context, request.caller
    body = request.body.under(ConfirmacaoSolicitada, "pagamento", "")
    kind, amount_cents = body.choice("meioIniciacao"), read_amount(body, has_comma=True)
    end_to_end_id = body.text("endToEndId", pattern=END_TO_END_ID)
    if kind == "MANUAL" and end_to_end_id is not None:
        body.refuse("endToEndId", "é de uma chave; o de uma conta nasce com o pagamento")
    if kind in ("CHAVE", "QRCODE") and not body.has("endToEndId"):
        body.refuse("endToEndId", "é obrigatório, como POST /pagamentos o respondeu")
    message, may_be_equal = body.text("descricao"), body.boolean("repeticao") or False
    _check_day(services, body)
    check_given(body, "origem", await read_own(services, caller))
    account = read_payee_account(body) if kind == "MANUAL" else None
    body.raise_if_any()
    amount_cents = errors.require(amount_cents, _MISSING)
    if account is not None:
        await _refuse_equal(face, services, caller, amount_cents, account, None, may_be_equal=may_be_equal)
        asked = AccountTransferRequest(amount_cents=amount_cents, credit_party=account)
        terms = SendingTerms(payer_message=message)
        transfer = (await transfer_usecases.start_transfer(context, caller, asked, terms)).transfer
        return await _show(face, services, caller, transfer)
    initiated = await initiated_usecases.find_initiated(context, caller, end_to_end_id or "")
    if initiated is None:
        body.refuse("endToEndId", "não é de um pagamento iniciado por esta conta")
        body.raise_if_any()
        raise errors.InvariantBroken(_MISSING)
    check_given(body, "destino", initiated.counterparty)
    body.raise_if_any()
    await _refuse_equal(face, services, caller, amount_cents, initiated.counterparty, initiated, may_be_equal=may_be_equal)
    repeat = cast("initiated_usecases.Repeat", face.choose(services, "repeated_confirmation"))
    transfer = await initiated_usecases.confirm_transfer(context, caller, initiated, amount_cents, message, repeat=repeat)
    return {**await _show(face, services, caller, transfer), "endToEndId": initiated.end_to_end_id}


async def pay_qr_code(face: Face, services: Services, request: Asked) -> Shown:
    caller = request.caller
    body = request.body.under(PagamentoDeCodigo, "pagamento", "")
    code, amount_cents = body.text("qrcode"), read_amount(body, has_comma=False)
    may_be_equal = body.boolean("repeticao") or False
    body.boolean("pagarComJurosMulta")
    _check_day(services, body)
    body.object("origem")
    check_given(body, "origem", await read_own(services, caller))
    payee = body.object("destino")
    owner = payee and payee.cpf_or_cnpj("cpfCnpj")
    body.raise_if_any()
    code, amount_cents, owner = code or "", errors.require(amount_cents, _MISSING), owner or ""
    has_location = br_code.parse_br_code(code).location is not None
    asked = QrCodeTransferRequest(amount_cents=amount_cents, br_code=code)
    await _refuse_equal(face, services, caller, amount_cents, owner, None, may_be_equal=may_be_equal)
    terms = SendingTerms(payee_tax_id=owner)
    transfer = (await transfer_usecases.start_transfer(services.context, caller, asked, terms)).transfer
    shown, valor = dict(await _show(face, services, caller, transfer)), format_reais(amount_cents)
    # It does not repeat the caller's words.
    shown.pop("descricao", None)
    of_code = {"txId": transfer.txid, "valorOriginal": valor, "tipoQrcode": "DINAMICO" if has_location else "ESTATICO"}
    return without_none({**shown, "valor": valor, **of_code})


async def get_by_end_to_end_id(face: Face, services: Services, request: Asked) -> Shown:
    """Consulta um pagamento pelo nome que o primeiro passo lhe deu, ou o pagamento de uma conta ou de um código."""
    (end_to_end_id,) = request.parameter
    if not END_TO_END_ID.fullmatch(end_to_end_id):
        raise errors.NotFound("id: there is no such payment")
    found = await find_sent(services.context, request.caller, end_to_end_id=end_to_end_id)
    if found is not None:
        return await _show(face, services, request.caller, found)
    initiated = await initiated_usecases.find_initiated(services.context, request.caller, end_to_end_id)
    if initiated is None or face.choose(services, "unconfirmed") == "not_found":
        raise errors.NotFound("id: there is no such payment")
    return {
        "endToEndId": end_to_end_id,
        "estado": face.profile.sent.statuses["CANCELLED"],
        "valor": 0,
        "horario": format_milliseconds(initiated.created_at),
        "origem": _show_account(await read_own(services, request.caller)),
        "destino": _show_payee(initiated.counterparty),
    }


def _check_day(services: Services, body: Members) -> None:
    sent = body.text("dataAgendamento")
    day, today = parse_day(sent), to_day(services.context.clock.now())
    if sent is not None and day is None:
        body.refuse("dataAgendamento", "deve ser um dia, AAAA-MM-DD")
    elif day is not None and day != today:
        body.refuse("dataAgendamento", "aqui nada é agendado: só pode ser hoje")


async def _refuse_equal(
    face: Face,
    services: Services,
    caller: Caller,
    amount_cents: int,
    payee: Party | str,
    initiated: InitiatedTransfer | None,
    *,
    may_be_equal: bool,
) -> None:
    """Refuse a payment equal to another of the last day, if that was chosen and ``repeticao`` does not permit it."""
    if may_be_equal or face.choose(services, "equal_payment") == "taken":
        return
    owner = payee if isinstance(payee, str) else payee.tax_id
    since = services.context.clock.now() - _COMPARED_FOR
    newest = Span(initial_at=since, page=1, page_size=_LOOKED_AT_MAX)
    page = await transfer_usecases.search_transfers(services.context, caller, TransferSearch(), newest)
    for sent in [view.transfer for view in page.items if view.transfer.direction == "OUT"][:_COMPARED_MAX]:
        is_itself = initiated is not None and sent.end_to_end_id == initiated.end_to_end_id
        is_equal = sent.amount_cents == amount_cents and sent.counterparty.tax_id == owner
        if is_equal and not is_itself and sent.status not in ("ERROR", "CANCELLED"):
            raise NamedRefusal("EQUAL_PAYMENT", "repeticao: há um pagamento igual nas últimas 24 horas")


async def _show(face: Face, services: Services, caller: Caller, transfer: Transfer) -> Shown:
    is_failed = transfer.status in ("ERROR", "CANCELLED")
    ended_at = date_settled(transfer.settled_at, transfer.network_settled_at) or transfer.modified_at
    shown = {
        "endToEndId": transfer.shown_id,
        "estado": face.profile.sent.choose_word(transfer.status, transfer.outcome_code),
        "valor": transfer.amount_cents / 100,
        "detalheRejeicao": (transfer.outcome_reason or transfer.outcome_code) if is_failed else None,
        "descricao": transfer.payer_message,
        "horario": format_milliseconds(ended_at),
        "origem": _show_account(await read_own(services, caller)),
        "destino": _show_payee(transfer.counterparty),
    }
    return without_none(shown)


def _show_payee(party: Party) -> Shown:
    return {**_show_account(party), "boolFavorecido": False}


def _show_account(party: Party) -> Shown:
    return {
        "ispb": party.ispb,
        "cpfCnpj": party.tax_id,
        "nome": party.name,
        "conta": party.account_number,
        "agencia": party.branch,
        "tipo": next(word for word, kind in ACCOUNT_WORDS.items() if kind == party.account_type),
    }
