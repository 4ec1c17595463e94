"""Inter's interface as one table, with its balance and statements, by days of Sao Paulo."""

from __future__ import annotations

import re
from datetime import date
from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api import charge, webhook
from pixconnect.features.pix_api.api.frame import Asked, Responder
from pixconnect.features.pix_api.api.violations import Parameters, Violations
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.location import AT_ONCE, WITH_DUE_DATE, LocationKind
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.rail import MovementKind
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day
from pixconnect_faces import account_webhook
from pixconnect_faces.fault import ListTraits
from pixconnect_faces.frame import (
    DAYS,
    LINES_MAX,
    Face,
    instants_of,
    list_standard_rows,
    parse_day,
    read_days,
    read_statement,
)
from pixconnect_faces.frame import FaceOperation as Row
from pixconnect_faces.inter import send
from pixconnect_faces.inter.send import is_code
from pixconnect_faces.refusals import NamedRefusal

_PAGE_SIZE: Final = 50
_MOVEMENT_KINDS: Final = dict[MovementKind, str](
    [
        ("fee", "TARIFA"),
        ("wire", "TRANSFERENCIA"),
        ("boleto", "PAGAMENTO"),
        ("by_hand", "TRANSFERENCIA"),
        ("reversal", "ESTORNO"),
    ]
)


async def read_balance(face: Face, services: Services, request: Asked) -> Shown:
    """O saldo de agora, ou o do fim de um dia."""
    context, caller = services.context, request.caller
    violations = Violations("saldo")
    values = request.query.read(("dataSaldo",))
    day, today = parse_day(values.get("dataSaldo")), to_day(context.clock.now())
    if values and (day is None or day > today):
        Parameters(violations, values).refuse("dataSaldo", "deve ser um dia, AAAA-MM-DD, não depois de hoje")
    violations.raise_if_any()
    if day is not None and day < today:
        statement = await statement_usecases.open_statement(context, caller, *instants_of(day, day))
        return {"disponivel": statement.extent.closing_cents / 100}
    balance = await ledger_usecases.read_balance(context, caller)
    blocked = ("bloqueadoCheque", "bloqueadoJudicialmente", "bloqueadoAdministrativo", "limite") if day is None else ()
    return {"disponivel": balance.available_cents / 100, **dict.fromkeys(blocked, 0.0)}


async def list_simple(face: Face, services: Services, request: Asked) -> Shown:
    violations = Violations("extrato")
    values = request.query.read(DAYS)
    days = read_days(Parameters(violations, values), values)
    violations.raise_if_any()
    lines = await _read_lines(face, services, request, days)
    names = ("tipoTransacao", "tipoOperacao", "valor", "titulo", "descricao")
    shown = [{"dataEntrada": line["dataTransacao"], **{name: line[name] for name in names}} for line in lines]
    return {"transacoes": shown}


async def list_complete(face: Face, services: Services, request: Asked) -> Shown:
    """O extrato de um período com detalhes, em páginas."""
    violations = Violations("extrato")
    names = (*DAYS, "pagina", "tamanhoPagina", "tipoOperacao", "tipoTransacao", "scrollEnabled", "scrollId")
    values = request.query.read(names)
    parameters = Parameters(violations, values)
    days = read_days(parameters, values)
    number = parameters.integer("pagina", least=0) or 0
    size = parameters.integer("tamanhoPagina", least=1, most=LINES_MAX) or _PAGE_SIZE
    operation = parameters.choice("tipoOperacao", ("D", "C"))
    if values.get("scrollEnabled") == "true" or "scrollId" in values:
        parameters.refuse("scrollEnabled", f"aqui não há scroll; um período tem no máximo {LINES_MAX} transações")
    violations.raise_if_any()
    wanted = set((values.get("tipoTransacao") or "").replace(" ", "").split(",")) - {""}
    lines = [
        line
        for line in await _read_lines(face, services, request, days)
        if operation in (None, line["tipoOperacao"]) and (not wanted or line["tipoTransacao"] in wanted)
    ]
    shown, pages = lines[number * size : (number + 1) * size], max(1, -(-len(lines) // size))
    return {
        "totalPaginas": pages,
        "totalElementos": len(lines),
        "ultimaPagina": number >= pages - 1,
        "primeiraPagina": number == 0,
        "tamanhoPagina": size,
        "numeroDeElementos": len(shown),
        "transacoes": shown,
    }


async def _read_lines(face: Face, services: Services, request: Asked, days: tuple[date, date] | None) -> list[Shown]:
    """Read all lines of these days, oldest first."""
    span, returned = errors.require(days, "a missing value is a violation"), face.choose(services, "return_line")
    statement, lines = await read_statement(services, request, span, "dataInicio, dataFim: este período tem")
    return [_show(line, statement.account, returned) for line in lines]


def _show(line: StatementLine, own: Party, returned: str) -> Shown:
    if line.movement is not None:
        kind, title = _MOVEMENT_KINDS.get(line.movement.kind, "OUTROS"), line.name_kind("pt")
    else:
        title = line.describe("pt").partition(" de ")[0].partition(" para ")[0]
        kind = "TRANSFERENCIA" if line.end_to_end_id is None else "PIX" if line.return_id is None else returned
    shown = {
        "idTransacao": str(line.id),
        "dataInclusao": to_day(line.created_at).isoformat(),
        "dataTransacao": to_day(line.dated_at).isoformat(),
        "tipoTransacao": kind,
        "tipoOperacao": "C" if line.direction == "IN" else "D",
        "valor": format_reais(line.amount_cents),
        "titulo": title,
        "descricao": line.describe("pt"),
        "detalhes": _show_details(line, own),
    }
    return without_none(shown)


def _show_details(line: StatementLine, own: Party) -> Shown | None:
    if line.movement is not None and line.movement.end_to_end_id is not None:
        return {"endToEndId": line.movement.end_to_end_id, "tipoDetalhe": "COMPLETE"}
    other = line.counterparty
    if line.end_to_end_id is None or other is None:
        return None
    ours, theirs = (own.name, own.tax_id), (other.name, other.tax_id)
    payer, payee = (theirs, ours) if line.direction == "IN" else (ours, theirs)
    is_sent = line.direction == "OUT" and line.return_id is None
    shown = {
        "txId": line.txid,
        "endToEndId": line.end_to_end_id,
        "codigoSolicitacao": line.external_id if is_sent and is_code(line.external_id) else None,
        "descricaoPix": line.payer_message if is_sent else line.description,
        "nomePagador": payer[0],
        "cpfCnpjPagador": payer[1],
        "nomeRecebedor": payee[0],
        "cpfCnpjRecebedor": payee[1],
        "tipoDetalhe": "COMPLETE",
    }
    return without_none(shown)


_PHONE: Final = re.compile(r"55[0-9]{10,11}")


class PagamentoSimulado(Struct, frozen=True, kw_only=True):
    valor: float


class CodigoSimulado(PagamentoSimulado, frozen=True, kw_only=True, rename="camel"):
    qr_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


async def put_webhook(face: Face, services: Services, request: Asked) -> Reply:
    await webhook.set_up(services, _with_plus(request), face.profile)
    return Reply(status=204)


async def _answer_about_key(respond: Responder, face: Face, services: Services, request: Asked) -> Reply:
    return await respond(services, _with_plus(request))


def _with_plus(request: Asked) -> Asked:
    """Restore a phone number's plus, which these paths lack; so it can be neither a CPF nor a CNPJ."""
    (key,) = request.parameter
    return structs.replace(request, parameter=(f"+{key}",)) if _PHONE.fullmatch(key) else request


async def pay_charge(kind: LocationKind, face: Face, services: Services, request: Asked) -> Shown:
    body = request.body.under(PagamentoSimulado, "pagamento", "")
    amount_cents = body.reais("valor")
    body.raise_if_any()
    read = await charge_usecases.read_charge(services.context, request.caller, charge.read_txid(request), kind=kind)
    return await _pay(services, request, read.charge.br_code, amount_cents)


async def pay_br_code(face: Face, services: Services, request: Asked) -> Shown:
    body = request.body.under(CodigoSimulado, "pagamento", "")
    code = body.text("qrCode")
    amount_cents = body.reais("valor")
    body.raise_if_any()
    return await _pay(services, request, code or "", amount_cents)


async def _pay(services: Services, request: Asked, code: str, amount_cents: int | None) -> Shown:
    paid = await sandbox_usecases.pay_by_code(services.context, request.caller, code, amount_cents or 0)
    if paid.status == "ERROR":
        raise NamedRefusal("NOT_PAID", f"valor: o pagamento foi recusado ({paid.code})")
    return {"endToEnd": paid.id}


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("webhook.configurar", "PUT", "/pix/v2/webhook/{chave}", "webhook.write", "webhook", put_webhook, "read",
        "An invalid URL is 400: the institution's behaviour is undocumented. Notices have no x-conta-corrente; "
        "retries come as our own webhooks' do."),
    Row("webhook.consultar", "GET", "/pix/v2/webhook/{chave}", "webhook.read", "webhook",
        partial(_answer_about_key, webhook.get_webhook), "read"),
    Row("webhook.remover", "DELETE", "/pix/v2/webhook/{chave}", "webhook.write", "webhook",
        partial(_answer_about_key, webhook.delete_webhook), "read"),
    Row("pix.enviar", "POST", "/banking/v2/pix", "transfer.write", "banking", send.send_from_account, "read",
        "A later dataPagamento is refused: nothing is scheduled. Insufficient money is refused at once, and an "
        "order that waits for a person is reserved meanwhile: the institution's behaviour is undocumented. "
        "x-conta-corrente is ignored."),
    Row("pix.enviado", "GET", "/banking/v2/pix/{codigoSolicitacao}", "transfer.read", "banking", send.get_sent, "read",
        "A pending send is ENVIADO, or AGUARDANDO_APROVACAO: the states between are not distinguished. That "
        "instants have no offset is inferred."),
    Row("envios.webhook.configurar", "PUT", "/banking/v2/webhooks/{tipoWebhook}", "webhook.write", "banking",
        partial(account_webhook.put, 204), "read",
        "Only pix-pagamento, and one body for each send. The API document hints that it goes to the URL with /pix-pagamento at "
        "the end. Retries come as our own webhooks' do, among which it is listed."),
    Row("envios.webhook.consultar", "GET", "/banking/v2/webhooks/{tipoWebhook}", "webhook.read", "banking",
        account_webhook.get, "read"),
    Row("envios.webhook.remover", "DELETE", "/banking/v2/webhooks/{tipoWebhook}", "webhook.write", "banking",
        account_webhook.delete, "read"),
    Row("saldo", "GET", "/banking/v2/saldo", "ledger.read", "banking", read_balance, "read",
        "Nothing is ever blocked. The balance of a past day includes money reserved then."),
    Row("extrato", "GET", "/banking/v2/extrato", "ledger.read", "banking", list_simple, "read",
        "At most 10,000 lines; their titles and their order are inferred."),
    Row("extrato.completo", "GET", "/banking/v2/extrato/completo", "ledger.read", "banking", list_complete, "read",
        "Without scroll. Accounts and institutions of the two sides are left out. Order, titles and kinds but PIX, ESTORNO and "
        "TARIFA are inferred.", listed=ListTraits(page="pagina", page_count="numeroDeElementos")),
)
_OF_TESTS: Final = (
    Row("sandbox.pagar_cob", "POST", "/pix/v2/cob/pagar/{txid}", "pix.write", "cob", partial(pay_charge, AT_ONCE), "read",
        "Only below `/faces/inter+homologation`. Its answer is inferred."),
    Row("sandbox.pagar_cobv", "POST", "/pix/v2/cobv/pagar/{txid}", "pix.write", "cobv", partial(pay_charge, WITH_DUE_DATE),
        "read", "As above; any other amount than that of the day is refused."),
    Row("sandbox.pagar_codigo", "POST", "/pix/v2/sandbox/cob/pagamento", "pix.write", "cob", pay_br_code, "read",
        "Only below `/faces/inter+homologation`."),
)
# fmt: on


def list_inter_rows(face: Face) -> list[Row]:
    rows = [*list_standard_rows(face.profile), *_OWN]
    return [*rows, *_OF_TESTS] if face.is_homologation else rows
