"""Efi's balance, the file of a day's movements, and the remaining look-ups of keys.

The file of a past day has the lines of the account's statement, between its opening and closing balances. A failed order is
debited and credited again: here both are written at its end, so that a pending order is in neither day.

Source: Efi, "Extrato de Conciliacao API Pix", layout 4.0 of July 2023.
"""

from __future__ import annotations

import base64
import re
from datetime import date, datetime, timedelta
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.statements.rules import StatementLine
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.holder import Party
from pixconnect.kernel.rules.listing import Span, TransferSearch
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds, to_day
from pixconnect_faces.frame import Face, instants_of, parse_day

_LINES_MAX: Final = 1000
_LASTS: Final = timedelta(days=1)
"""Usual duration of an order; later settlements are read by name."""
_PARTS_LINES: Final = re.compile(r"[;\x00-\x1f\x7f]")
_TITLE: Final = "Extrato de Conciliação API Pix"


async def write_day(services: Services, caller: Caller, day: date) -> str:
    context = services.context
    begin, end = instants_of(day, day)
    statement = await statement_usecases.open_statement(context, caller, begin, end, language="pt")
    span = Span(page_size=_LINES_MAX, initial_at=begin - _LASTS, final_at=end)
    sent = await transfer_usecases.search_transfers(context, caller, TransferSearch(direction="OUT"), span)
    if max(statement.extent.lines_count, sent.total_count) > _LINES_MAX:
        raise errors.ServiceUnavailable(f"a day of more than {_LINES_MAX} lines has no file here")
    orders = {view.transfer.shown_id: view.transfer for view in sent.items}
    moved = [line async for part in statement_usecases.read_parts(context, statement) for line in part]
    # Orders that settled; a refund's line names its original.
    sent_names = {line.end_to_end_id for line in moved if line.direction == "OUT" and not line.return_id}
    for name in filter(None, sent_names - orders.keys()):
        orders[name] = (await transfer_usecases.read_transfer_by_end_to_end_id(context, caller, name)).transfer
    records = [_write(line, statement.account, orders) for line in moved]
    for order in orders.values():
        if order.status in ("ERROR", "CANCELLED") and begin <= order.modified_at <= end:
            valor, at = format_reais(order.amount_cents), format_milliseconds(order.modified_at)
            debit = _write_sent(order, f"{order.id}1", order.modified_at)
            records += (debit, _join("EPE", f"{order.id}2", order.shown_id, valor, at))
    own = statement.account
    asked_on = to_day(context.clock.now()).isoformat()
    lines = [
        _join("CA", "Efí", "364", own.branch, own.account_number, own.name, asked_on, day.isoformat(), _TITLE, "4.0"),
        _join("SD0", format_reais(statement.extent.opening_cents), (day - timedelta(days=1)).isoformat()),
        *records,
        _join("SD1", format_reais(statement.extent.closing_cents), day.isoformat()),
        _join("T", str(len(records))),
    ]  # fmt: skip
    return "".join(f"{line}\r\n" for line in lines)


def _write(line: StatementLine, own: Party, orders: dict[str, Transfer]) -> str:
    valor, at = format_reais(line.amount_cents), format_milliseconds(line.created_at)
    protocol, is_in = str(line.id), line.direction == "IN"
    name, txid, text = line.end_to_end_id or "", line.txid or "", _encode(line.description)
    if not name:
        return _write_other(line, own, protocol, valor, at)
    if line.return_id is not None:
        if is_in:
            return _join("PDR", protocol, name, line.return_id, valor, at)
        return _join("PDE", protocol, name, txid, line.external_id or line.return_id, line.return_id, valor, at)
    if is_in:
        payer = "" if line.counterparty is None else line.counterparty.tax_id
        return _join("PR", protocol, name, txid, valor, payer, text, _encode("[]"), at)
    return _write_sent(orders[name], protocol, line.created_at)


def _write_other(line: StatementLine, own: Party, protocol: str, valor: str, at: str) -> str:
    """Write a line other than a Pix: fees, wires, boletos, and actions in the bank's app."""
    moved, is_in = line.movement, line.direction == "IN"
    about = None if moved is None else moved.end_to_end_id
    if moved is not None and moved.kind == "fee":
        if about is None:
            return _join("ETTFE" if is_in else "TTFE", protocol, protocol, valor, at)
        kind = "TPE" if about.startswith(f"E{own.ispb}") else "TPR"
        return _join(f"E{kind}" if is_in else kind, protocol, about, valor, at)
    if moved is not None and about is not None:
        if is_in:
            return _join("EPE", protocol, about, valor, at)
        return _join("PEC", protocol, about, "", valor, "", _encode(line.description), "APP", at)
    if moved is not None and moved.kind == "reversal" and is_in:
        return _join("ETFE", protocol, protocol, valor, at)
    return _join("TFR" if is_in else "TFE", protocol, protocol, valor, at)


def _write_sent(order: Transfer, protocol: str, at: datetime) -> str:
    payee, message = order.counterparty, _encode(order.payer_message)
    names = (protocol, order.shown_id, order.external_id or "", format_reais(order.amount_cents))
    ends = (message, "API", format_milliseconds(at))
    if order.initiation_type != "MANUAL":
        return _join("PEC", *names, payee.key or "", *ends)
    account = (payee.name, payee.tax_id, payee.ispb, payee.branch, payee.account_number, payee.account_type)
    return _join("PEB", *names, *account, *ends)


def _join(*values: str) -> str:
    return ";".join(_PARTS_LINES.sub(" ", value) for value in values)


def _encode(text: str | None) -> str:
    return base64.b64encode((text or "").encode()).decode()


_READY_AFTER: Final = timedelta(seconds=1)
_ID: Final = re.compile(r"([0-9]{8})([0-9]{13})")
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BUCKETS: Final = {"baldeA": ("cpf", "cnpj", "evp"), "baldeB": ("telefone", "email")}
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class TiposDeRegistro(Struct, frozen=True):
    """Quais registros; aqui vêm todos."""


class RelatorioSolicitado(Struct, frozen=True, kw_only=True, rename="camel"):
    movement_day: Annotated[str, Meta(max_length=10)] = field(name="dataMovimento")
    tipo_registros: TiposDeRegistro


async def read_balance(face: Face, services: Services, request: Asked) -> Shown:
    balance = await ledger_usecases.read_balance(services.context, request.caller)
    wants_blocked = request.query.read(("bloqueios",)).get("bloqueios") == "true"
    held = format_reais(balance.blocked_cents)
    blocked = dict(judicial="0.00", med=held, total=held) if wants_blocked else None
    is_in_it = face.choose(services, "blocked_balance") == "in"
    cents = balance.available_cents + (balance.blocked_cents if is_in_it else 0)
    return without_none({"saldo": format_reais(cents), "bloqueios": blocked})


async def list_random_keys(face: Face, services: Services, request: Asked) -> Shown:
    face.refuse_in_tests("KEYS_OFF")
    keys = await holder_usecases.list_pix_keys(services.context, request.caller.holder_id)
    return {"chaves": [key.key for key in keys if key.key_type == "EVP"]}


async def read_buckets(face: Face, services: Services, request: Asked) -> Shown:
    context = services.context
    policy, left = await context.lookups.read_left(context, request.caller.holder_id)
    return {
        name: {
            "tiposChave": kinds,
            "capacidade": policy.tokens_max,
            "fichasDisponiveis": left,
            "taxaDeReposicaoFichas": policy.refill_a_minute,
            "periodoReposicaoEmSegundos": 60,
        }
        for name, kinds in _BUCKETS.items()
    }


async def request_report(face: Face, services: Services, request: Asked) -> Reply:
    """Pede o arquivo dos movimentos de um dia que terminou."""
    body = request.body.under(RelatorioSolicitado, "relatorio", "")
    sent = body.text("dataMovimento", pattern=_DAY)
    now = services.context.clock.now()
    day = parse_day(sent)
    if sent is not None and (day is None or day >= to_day(now)):
        body.refuse("dataMovimento", "deve ser um dia anterior a hoje, AAAA-MM-DD")
    body.object("tipoRegistros")
    body.raise_if_any()
    # The id contains the whole request, so nothing is stored.
    name = f"{sent or ''}".replace("-", "") + f"{int((now - _EPOCH) / timedelta(milliseconds=1)):013d}"
    return Reply(status=201, record=_describe(name, now, "AGUARDANDO_PROCESSAMENTO"))


async def get_report(face: Face, services: Services, request: Asked) -> Reply | Document:
    """O arquivo, em CSV, quando está pronto."""
    (name,) = request.parameter
    found = _ID.fullmatch(name)
    day = None if found is None else parse_day(f"{found[1][:4]}-{found[1][4:6]}-{found[1][6:]}")
    if found is None or day is None:
        raise errors.NotFound("id: there is no such report")
    asked_at, now = _EPOCH + timedelta(milliseconds=int(found[2])), services.context.clock.now()
    if not timedelta(0) <= now - asked_at or day >= to_day(asked_at):
        raise errors.NotFound("id: there is no such report")
    if now - asked_at < _READY_AFTER:
        return Reply(status=202, record=_describe(name, asked_at, "EM_PROCESSAMENTO"))
    written = await write_day(services, request.caller, day)
    return Document(content=written.encode(), media_type="text/csv; charset=utf-8")


def _describe(name: str, asked_at: datetime, status: str) -> Shown:
    return {"id": name, "dataSolicitacao": format_milliseconds(asked_at), "status": status}
