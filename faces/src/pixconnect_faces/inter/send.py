"""Sending at Inter: under an optional idempotency key, and queried by the institution's own code."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Annotated, Final, Literal
from uuid import UUID, uuid5

from msgspec import Meta, Struct, field

from pixconnect.doors.api.operation import Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Members, Violations
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service.send_record import (
    ACCOUNT_KINDS,
    ended_at,
    find_sent,
    show_errors,
    show_payee,
    write_local,
)
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.holder import ACCOUNT_DIGITS, BRANCH, ISPB, KEY_LENGTH_MAX, Party
from pixconnect.kernel.rules.transfer import (
    MESSAGE_LENGTH_MAX,
    AccountTransferRequest,
    KeyTransferRequest,
    QrCodeTransferRequest,
    SendingTerms,
    Transfer,
    TransferRequest,
)
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect_faces.frame import Face, make_party, parse_day, read_own
from pixconnect_faces.refusals import NamedRefusal


class InstituicaoFinanceira(Struct, frozen=True, kw_only=True):
    ispb: Annotated[str, Meta(max_length=8)]


class DestinatarioDoPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    """Por ``tipo``: a chave, o código, ou a conta com o dono."""

    tipo: Literal["CHAVE", "DADOS_BANCARIOS", "PIX_COPIA_E_COLA"]
    chave: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)]
    br_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)] = field(name="pixCopiaECola")
    nome: Annotated[str, Meta(min_length=1, max_length=200)]
    cpf_cnpj: Annotated[str, Meta(max_length=14)]
    agencia: Annotated[str, Meta(max_length=4)]
    conta_corrente: Annotated[str, Meta(max_length=20)]
    tipo_conta: Literal["CONTA_CORRENTE", "CONTA_POUPANCA", "CONTA_SALARIO", "CONTA_PAGAMENTO"]
    instituicao_financeira: InstituicaoFinanceira


class PixSolicitado(Struct, frozen=True, kw_only=True):
    valor: float
    paid_on: Annotated[str, Meta(max_length=10)] | None = field(default=None, name="dataPagamento")
    descricao: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    destinatario: DestinatarioDoPedido


def read_payee(body: Members, amount_cents: int) -> Callable[..., TransferRequest] | None:
    """Read the payee: the maker of the request, once its name is known."""
    payee = body.object("destinatario")
    kind = payee and payee.choice("tipo")
    if payee is None or kind is None:
        return None
    if kind == "DADOS_BANCARIOS":
        account = _read_account(payee)
        return account and partial(AccountTransferRequest, amount_cents=amount_cents, credit_party=account)
    if kind == "PIX_COPIA_E_COLA":
        code = payee.text("pixCopiaECola")
        return None if code is None else partial(QrCodeTransferRequest, amount_cents=amount_cents, br_code=code)
    key = payee.pix_key("chave")
    return key and partial(KeyTransferRequest, amount_cents=amount_cents, key=key.key, key_type=key.key_type)


def _read_account(payee: Members) -> Party | None:
    name = payee.text("nome")
    owner = payee.cpf_or_cnpj("cpfCnpj")
    branch = payee.text("agencia", pattern=BRANCH)
    number = payee.text("contaCorrente", pattern=ACCOUNT_DIGITS)
    kind = payee.choice("tipoConta")
    institution = payee.object("instituicaoFinanceira")
    ispb = None if institution is None else institution.text("ispb", pattern=ISPB)
    return make_party(ACCOUNT_KINDS, name=name, owner=owner, ispb=ispb, branch=branch, number=number, kind=kind)


_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CODE_MAX: Final = 1000
# The code of a send is derived from its key, so that a replay is found without further records.
_CODES: Final = UUID("6f0f2c52-6a0e-5d0c-9f43-00c1cf416968")
_DAY: Final = timedelta(days=1)
_ASKED_FOR: Final = timedelta(days=90)


async def send_from_account(face: Face, services: Services, request: Asked) -> Shown:
    context, caller = services.context, request.caller
    violations = Violations("pix")
    key = _read_key(violations, request, is_required=face.choose(services, "idempotency_header") == "required")
    # A send under this key is answered in its present state, also on a later day.
    code = None if key is None or violations.rows else await _find_code(face, services, caller, key)
    is_repeat = code is not None and await find_sent(context, caller, id_envio=code) is not None
    body = request.body.under(PixSolicitado, violations, "")
    amount_cents = body.reais("valor")
    if amount_cents == 0:
        body.refuse("valor", "deve ser maior que zero")
    sent_day = body.text("dataPagamento")
    day, today = parse_day(sent_day), to_day(context.clock.now())
    if sent_day is not None and (day is None or (day < today and not is_repeat)):
        body.refuse("dataPagamento", "deve ser um dia, AAAA-MM-DD, não anterior a hoje")
    message = body.text("descricao")
    payee = read_payee(body, amount_cents or 0)
    violations.raise_if_any()
    asked = errors.require(payee, "a missing value is a violation")
    if day is not None and day > today:
        raise NamedRefusal("SCHEDULED", "dataPagamento: aqui nada é agendado")
    code = code or str(context.entropy.uuid4())
    transfer = await _start(face, services, caller, asked(external_id=code), SendingTerms(payer_message=message))
    operated_on = to_day(transfer.created_at).isoformat()
    return {
        "tipoRetorno": "APROVACAO" if _needs_person(face, services) else "PROCESSADO",
        "codigoSolicitacao": code,
        "dataPagamento": operated_on,
        "dataOperacao": operated_on,
    }


async def get_sent(face: Face, services: Services, request: Asked) -> Shown:
    """Consulta um envio pelo código que a instituição lhe deu."""
    (code,) = request.parameter
    violations = Violations("pix")
    if not _UUID.fullmatch(code):
        violations.add("codigoSolicitacao", "deve ser um UUID", code)
    violations.raise_if_any()
    found = await find_sent(services.context, request.caller, id_envio=code)
    if found is None or services.context.clock.now() - found.created_at > _ASKED_FOR:
        raise errors.NotFound("codigoSolicitacao: there is no such sent Pix of the last 90 days")
    request.query.refuse_hidden(found.created_at)
    own = await read_own(services, request.caller)
    words, is_waiting = face.profile.sent, found.status == "PROCESSING" and _needs_person(face, services)
    status = words.statuses["WAITING"] if is_waiting else words.choose_word(found.status, found.outcome_code)
    finished_at = ended_at(found)
    history = [("CRIADO", found.created_at), (status, finished_at or found.created_at)]
    shown = {
        "contaCorrente": own.account_number,
        "recebedor": show_payee(found),
        "erros": show_errors(found) or None,
        "endToEnd": found.shown_id,
        "valor": found.amount_cents / 100,
        "status": status,
        "dataHoraMovimento": finished_at and write_local(finished_at),
        "dataHoraSolicitacao": write_local(found.created_at),
        "chave": found.counterparty.key,
        "codigoSolicitacao": code,
    }
    return {
        "transacaoPix": without_none(shown),
        "historico": [dict(status=word, dataHoraEvento=write_local(at)) for word, at in history],
    }


def is_code(text: str | None) -> bool:
    return text is not None and _UUID.fullmatch(text) is not None


def _read_key(violations: Violations, request: Asked, *, is_required: bool) -> str | None:
    raw = request.headers.get(b"x-id-idempotente")
    if raw is None:
        if is_required:
            violations.add("x-id-idempotente", "é obrigatório")
        return None
    key = raw.decode("latin-1")
    if not _UUID.fullmatch(key):
        violations.add("x-id-idempotente", "deve ser um UUID em letras minúsculas", key)
    return key


async def _find_code(face: Face, services: Services, caller: Caller, key: str) -> str:
    """Find the code of the send under this key; a new one if the key is no longer known."""
    for number in count():
        code = str(uuid5(_CODES, f"{key}/{number}"))
        if face.choose(services, "key_memory") == "ever" or number == _CODE_MAX:
            return code
        found = await find_sent(services.context, caller, id_envio=code)
        if found is None or services.context.clock.now() - found.created_at < _DAY:
            return code
    raise errors.InvariantBroken("numbers do not end")


async def _start(face: Face, services: Services, caller: Caller, asked: TransferRequest, terms: SendingTerms) -> Transfer:
    try:
        return (await transfer_usecases.start_transfer(services.context, caller, asked, terms)).transfer
    except errors.ExternalIdConflict:
        found = await find_sent(services.context, caller, id_envio=asked.external_id or "")
        if found is None or face.choose(services, "same_key_other_contents") == "refused":
            raise
        return found
    except errors.PixKeyNotFound:
        if face.choose(services, "unknown_key") == "unprocessable":
            raise NamedRefusal("UNPROCESSABLE_KEY", "destinatario.chave: não foi encontrada") from None
        raise


def _needs_person(face: Face, services: Services) -> bool:
    return face.choose(services, "approval") == "person"
