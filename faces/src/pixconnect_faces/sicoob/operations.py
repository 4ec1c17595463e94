"""Sicoob's interface as one table, with its balance and its statement of a month, by days of Sao Paulo."""

from __future__ import annotations

import calendar
from collections.abc import Mapping
from datetime import date
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api import charge, location
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Parameters, Violations
from pixconnect.features.pix_api.rules import Shown
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.br_code import format_dynamic_br_code
from pixconnect.kernel.rules.location import AT_ONCE, WITH_DUE_DATE, LocationKind
from pixconnect.kernel.rules.money import format_reais
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import SAO_PAULO, to_day
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect_faces import account_webhook
from pixconnect_faces.frame import Face, FaceResponder, list_standard_rows, read_own, read_statement
from pixconnect_faces.frame import FaceOperation as Row
from pixconnect_faces.sicoob import send

_ACCOUNT_MAX: Final = 10**18
_NOTHING: Final = "0.00"


async def read_balance(face: Face, services: Services, request: Asked) -> Shown:
    violations = Violations("saldo")
    parameters = Parameters(violations, request.query.read(("numeroContaCorrente",)))
    await _check_account(services, request, parameters)
    violations.raise_if_any()
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    shown = {"saldo": balance.available_cents / 100, "saldoLimite": 0, "saldoBloqueado": 0}
    return _answer(face, services, shown)


async def list_month(face: Face, services: Services, request: Asked) -> Shown:
    month, year = request.parameter
    violations = Violations("extrato")
    names = ("numeroContaCorrente", "diaInicial", "diaFinal", "agruparCNAB")
    values = request.query.read(names)
    days = _read_days(Parameters(violations, {"mes": month, "ano": year}), Parameters(violations, values))
    parameters = Parameters(violations, values)
    parameters.boolean("agruparCNAB")
    if await _check_account(services, request, parameters) is None and "numeroContaCorrente" not in values:
        parameters.refuse("numeroContaCorrente", "é obrigatório")
    violations.raise_if_any()
    span = errors.require(days, "a missing value is a violation")
    statement, lines = await read_statement(services, request, span, "diaInicial, diaFinal: estes dias têm")
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    is_end_to_end = face.choose(services, "transaction_id") == "end_to_end_id"
    shown = {
        "saldoAtual": format_reais(balance.available_cents),
        "saldoBloqueado": _NOTHING,
        "saldoLimite": _NOTHING,
        "saldoAnterior": format_reais(statement.extent.opening_cents),
        "saldoBloqueioJudicial": _NOTHING,
        "saldoBloqueioJudicialAnterior": _NOTHING,
        "transacoes": [_show(line, is_end_to_end=is_end_to_end) for line in lines],
    }
    return _answer(face, services, shown)


def _answer(face: Face, services: Services, shown: Shown) -> Shown:
    return {"resultado": shown} if face.choose(services, "account_answer") == "resultado" else shown


async def _check_account(services: Services, request: Asked, parameters: Parameters) -> int | None:
    number = parameters.integer("numeroContaCorrente", least=0, most=_ACCOUNT_MAX)
    if number is not None and number != int((await read_own(services, request.caller)).account_number):
        parameters.refuse("numeroContaCorrente", "não é a conta deste cliente")
    return number


def _read_days(path: Parameters, query: Parameters) -> tuple[date, date] | None:
    month = path.integer("mes", least=1, most=12)
    year = path.integer("ano", least=1970, most=9998)
    if month is None or year is None:
        return None
    last_day = calendar.monthrange(year, month)[1]
    first = query.integer("diaInicial", least=1, most=last_day) or 1
    last = query.integer("diaFinal", least=1, most=last_day) or last_day
    if first > last:
        return query.refuse("diaFinal", "não pode ser anterior a diaInicial")
    return date(year, month, first), date(year, month, last)


def _show(line: StatementLine, *, is_end_to_end: bool) -> Shown:
    description = line.describe("pt")
    made_at = line.dated_at.astimezone(SAO_PAULO).replace(tzinfo=None)
    name = (line.return_id or line.end_to_end_id) if is_end_to_end else None
    return {
        "transactionId": name or str(line.id),
        "tipo": "CREDITO" if line.direction == "IN" else "DEBITO",
        "valor": format_reais(line.amount_cents),
        "data": made_at.isoformat(timespec="seconds"),
        "dataLote": to_day(line.created_at).isoformat(),
        "descricao": description.partition(" de ")[0].partition(" para ")[0],
        "numeroDocumento": "Pix" if line.end_to_end_id else "",
        "cpfCnpj": "" if line.counterparty is None else line.counterparty.tax_id,
        "descInfComplementar": description,
    }


class ImagemDaLocation(Struct, frozen=True, kw_only=True):
    largura: Annotated[int, Meta(ge=50, le=1500)] | None = None


class ImagemDaCob(ImagemDaLocation, frozen=True, kw_only=True):
    revisao: Annotated[int, Meta(ge=0)] | None = None


async def _answer_with_codes(
    respond: FaceResponder, face: Face, services: Services, request: Asked
) -> Reply | Document | Shown:
    """Add the code to each returned location, with or without a charge."""
    reply = await respond(face, services, request)
    if not isinstance(reply, Reply):
        return reply
    account = await services.context.directory.read_account(request.caller.holder_id)
    record: Any = msgspec.to_builtins(reply.record)
    for found in _find_locations(record):
        found["brcode"] = format_dynamic_br_code(found["location"], account.party.name, account.city)
    return structs.replace(reply, record=record)


def _find_locations(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Find the locations in a charge, in a list of either, or the only one."""
    if "tipoCob" in record:
        return [record]
    listed: Any = record.get("loc", [])
    below = [found for each in record.get("cobs", []) for found in _find_locations(each)]
    return [*(listed if isinstance(listed, list) else [listed]), *below]


async def draw_charge(kind: LocationKind, face: Face, services: Services, request: Asked) -> Document:
    parameters = request.query.under(ImagemDaCob, kind)
    revision, _ = parameters.integer("revisao"), parameters.integer("largura")
    parameters.raise_if_any()
    return await _draw(services, request, charge.read_txid(request), revision, kind)


async def draw_located_charge(face: Face, services: Services, request: Asked) -> Document:
    parameters = request.query.under(ImagemDaLocation, "loc")
    parameters.integer("largura")
    parameters.raise_if_any()
    place, txid = await location_usecases.read_location(services.context, request.caller, location.read_id(request))
    txid = errors.found(txid, "id: this location leads to no charge")
    return await _draw(services, request, txid, None, place.kind)


async def _draw(services: Services, request: Asked, txid: str, revision: int | None, kind: LocationKind) -> Document:
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision, kind)
    return Document(content=await services.draw_qr_png(read.charge.br_code), media_type="image/png")


_ALWAYS: Final = {
    "endToEndId": "stringstringstringstringstringst",
    "chave": "28133847044",
    "tipo": "CPF",
    "proprietario": dict(tipo="FISICO", nome="nome", identificador="28133847044"),
}


async def _initiate_nothing(face: Face, services: Services, request: Asked) -> Shown:
    request.body.require("pagamento")
    return _ALWAYS


async def _refuse(face: Face, services: Services, request: Asked) -> Reply:
    reason = "Dados do campo 'origem' precisam ser preenchidos manualmente."
    raise Violated("pagamento", [Violation(property="origem", reason=reason)])


_INSTEAD: Final[Mapping[str, FaceResponder]] = {
    "pagamentos.iniciar": _initiate_nothing,
    "pagamentos.confirmar": _refuse,
}


_PIX: Final = "/pix/api/v2"
_SENDING: Final = "/pix-pagamentos/v2/pagamentos"
_ACCOUNT: Final = "/conta-corrente/v4"

# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("cob.imagem", "GET", f"{_PIX}/cob/{{txid}}/imagem", "cob.read", "pix", partial(draw_charge, AT_ONCE), "read",
        "The picture has one width, regardless of largura."),
    Row("cobv.imagem", "GET", f"{_PIX}/cobv/{{txid}}/imagem", "cobv.read", "pix", partial(draw_charge, WITH_DUE_DATE),
        "read", "As above."),
    Row("loc.imagem", "GET", f"{_PIX}/loc/{{id}}/imagem", "payloadlocation.read", "pix", draw_located_charge, "read",
        "As above."),
    Row("pagamentos.webhook.configurar", "PUT", f"{_SENDING}/webhook", "webhook.write", "payments",
        partial(account_webhook.put, 200), "read",
        "Notices go to the URL with /lancamento at the end. Retries come as our own webhooks' do, among which it is listed."),
    # It has one scope for reading and writing.
    Row("pagamentos.webhook.consultar", "GET", f"{_SENDING}/webhook", "webhook.write", "payments",
        account_webhook.get, "read"),
    Row("pagamentos.webhook.remover", "DELETE", f"{_SENDING}/webhook", "webhook.write", "payments",
        account_webhook.delete, "read"),
    Row("pagamentos.iniciar", "POST", _SENDING, "transfer.write", "payments", send.initiate, "read",
        "That an unknown key is 400 is inferred. A dataAgendamento other than today is refused. The id names the "
        "sandbox's institution; the network refuses it after 12 hours. Below `/faces/sicoob+homologation` the "
        "answer is always one, as one source saw."),
    Row("pagamentos.confirmar", "POST", f"{_SENDING}/confirmacao", "transfer.write", "payments", send.confirm, "read",
        "Insufficient money is 400 at once, QRCODE is as CHAVE, and MANUAL takes no endToEndId: the institution's "
        "behaviour is undocumented. Of origem and destino the owner, the branch and the account are compared. "
        "Nothing is scheduled. Below `/faces/sicoob+homologation` it is always refused, as two sources saw; it "
        "requires a token and a certificate all the same."),
    Row("pagamentos.pagar_qrcode", "POST", f"{_SENDING}/qrcode", "transfer.write", "payments", send.pay_qr_code, "read",
        "No code has fine or interest. Names of refusals are inferred."),
    Row("pagamentos.consultar", "GET", f"{_SENDING}/{{id}}", "transfer.read", "payments", send.get_by_end_to_end_id, "read",
        "NÃO_REALIZADO is a payment that provably never left, which is inferred."),
    Row("saldo", "GET", f"{_ACCOUNT}/saldo", "ledger.read", "account", read_balance, "read",
        "Nothing is ever blocked, and there is no limit. The header client_id is ignored."),
    Row("extrato", "GET", f"{_ACCOUNT}/extrato/{{mes}}/{{ano}}", "ledger.read", "account", list_month, "read",
        "At most 10,000 lines. The forms of dates, texts and document numbers are inferred, agruparCNAB is ignored."),
)
# fmt: on


def list_sicoob_rows(face: Face) -> list[Row]:
    rows = list[Row]()
    for row in list_standard_rows(face.profile):
        is_located = row.id.startswith(("cob.", "cobv.", "loc."))
        rows.append(structs.replace(row, handler=partial(_answer_with_codes, row.handler)) if is_located else row)
    if not face.is_homologation:
        return [*rows, *_OWN]
    return [structs.replace(row, handler=_INSTEAD.get(row.id, row.handler)) for row in (*rows, *_OWN)]
