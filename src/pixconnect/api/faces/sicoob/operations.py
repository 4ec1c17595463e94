"""Sicoob's interface as one table: what the standard has by its profile, and what is its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, structs

from pixconnect.api.faces.frame import Face, FaceOperation, FaceResponder, Shown, list_standard_rows
from pixconnect.api.faces.frame import FaceOperation as Row
from pixconnect.api.faces.sicoob import account, send
from pixconnect.api.frame.document import Document
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import location, webhook
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import TXID
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.frame.violation import Violated, Violation
from pixconnect.domain.money.br_code import format_dynamic_br_code
from pixconnect.domain.standard.location import AT_ONCE, WITH_DUE_DATE, LocationKind
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.standard import location as location_usecases
from pixconnect.usecases.webhooks import account_webhook


class ImagemDaLocation(Struct, frozen=True, kw_only=True):
    largura: Annotated[int, Meta(ge=50, le=1500)] | None = None


class ImagemDaCob(ImagemDaLocation, frozen=True, kw_only=True):
    revisao: Annotated[int, Meta(ge=0)] | None = None


def with_codes(rows: Sequence[FaceOperation]) -> list[FaceOperation]:
    """Let each location that is answered say its code, whether it leads to a charge or not yet."""
    located = ("cob.", "cobv.", "loc.")
    return [structs.replace(row, handler=_saying_codes(row)) if row.id.startswith(located) else row for row in rows]


def _saying_codes(row: FaceOperation) -> FaceResponder:
    async def answer(face: Face, services: Services, request: Asked) -> Reply | Document | Shown:
        reply = await row.handler(face, services, request)
        if not isinstance(reply, Reply):
            return reply
        account = await services.context.directory.read_account(request.caller.holder_id)
        record: Any = msgspec.to_builtins(reply.record)
        for found in _find_locations(record):
            found["brcode"] = format_dynamic_br_code(found["location"], account.party.name, account.city)
        return structs.replace(reply, record=record)

    return answer


def _find_locations(record: dict[str, Any]) -> list[dict[str, Any]]:
    """Those in a charge, in a list of either, or the only one."""
    if "tipoCob" in record:
        return [record]
    listed: Any = record.get("loc", [])
    below = [found for charge in record.get("cobs", []) for found in _find_locations(charge)]
    return [*(listed if isinstance(listed, list) else [listed]), *below]


async def draw_charge(kind: LocationKind, face: Face, services: Services, request: Asked) -> Document:
    """A imagem do código de uma cobrança."""
    (txid,) = request.parameter
    parameters = request.query.under(ImagemDaCob, kind)
    revision, _ = parameters.integer("revisao"), parameters.integer("largura")
    parameters.raise_if_any()
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    return await _draw(services, request, txid, revision, kind)


async def draw_located_charge(face: Face, services: Services, request: Asked) -> Document:
    """A imagem do código da cobrança de uma location."""
    parameters = request.query.under(ImagemDaLocation, "loc")
    parameters.integer("largura")
    parameters.raise_if_any()
    shown = await location_usecases.read_location(services.context, request.caller, location.read_id(request))
    if shown.txid is None:
        raise errors.NotFound("id: this location leads to no charge")
    return await _draw(services, request, shown.txid, None, shown.location.kind)


async def _draw(services: Services, request: Asked, txid: str, revision: int | None, kind: LocationKind) -> Document:
    read = await charge_usecases.read_charge(services.context, request.caller, txid, revision, kind)
    return Document(content=await services.draw_qr_png(read.charge.br_code), media_type="image/png")


async def put_sent_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Configura o webhook dos pagamentos da conta."""
    body = request.body.under(webhook.WebhookSolicitado, "webhook", "")
    url = body.text("webhookUrl")
    body.raise_if_any()
    await account_webhook.set_account_webhook(services.context, request.caller, url or "", face.profile)
    return Reply(status=200)


async def get_sent_webhook(face: Face, services: Services, request: Asked) -> Shown:
    """Consulta o webhook dos pagamentos da conta."""
    found = await account_webhook.read_account_webhook(services.context, request.caller, face.profile)
    return {"webhookUrl": found.url, "criacao": format_milliseconds(found.created_at)}


async def drop_sent_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Remove o webhook dos pagamentos da conta."""
    await account_webhook.delete_account_webhook(services.context, request.caller, face.profile)
    return Reply(status=204)


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


def send_nothing(rows: Sequence[FaceOperation]) -> list[FaceOperation]:
    return [structs.replace(row, handler=_INSTEAD.get(row.id, row.handler)) for row in rows]


_PIX: Final = "/pix/api/v2"
_SENDING: Final = "/pix-pagamentos/v2/pagamentos"
_ACCOUNT: Final = "/conta-corrente/v4"

# A row's columns stay in the same two lines of their own, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("cob.imagem", "GET", f"{_PIX}/cob/{{txid}}/imagem", "cob.read", "pix", partial(draw_charge, AT_ONCE), "read",
        "The picture has one width, whatever largura says."),
    Row("cobv.imagem", "GET", f"{_PIX}/cobv/{{txid}}/imagem", "cobv.read", "pix", partial(draw_charge, WITH_DUE_DATE),
        "read", "As above."),
    Row("loc.imagem", "GET", f"{_PIX}/loc/{{id}}/imagem", "payloadlocation.read", "pix", draw_located_charge, "read",
        "As above."),
    Row("pagamentos.webhook.configurar", "PUT", f"{_SENDING}/webhook", "webhook.write", "payments",
        put_sent_webhook, "read",
        "Notices go to the URL with /lancamento at the end. Retries come as our own webhooks' do, among which it is listed."),
    # Its scope is one for reading and writing.
    Row("pagamentos.webhook.consultar", "GET", f"{_SENDING}/webhook", "webhook.write", "payments",
        get_sent_webhook, "read"),
    Row("pagamentos.webhook.remover", "DELETE", f"{_SENDING}/webhook", "webhook.write", "payments",
        drop_sent_webhook, "read"),
    Row("pagamentos.iniciar", "POST", _SENDING, "transfer.write", "payments", send.initiate, "read",
        "That a key which nobody has is 400 is inferred. A dataAgendamento other than today is refused. The id names the "
        "sandbox's institution; the network refuses it after 12 hours. Below `/faces/sicoob+homologation` the answer is always "
        "one, as one source saw."),
    Row("pagamentos.confirmar", "POST", f"{_SENDING}/confirmacao", "transfer.write", "payments", send.confirm, "read",
        "Too little money is 400 at once, QRCODE is as CHAVE, and MANUAL takes no endToEndId: no source says what happens. "
        "Of origem and destino the owner, the branch and the account are compared. Nothing is scheduled. Below "
        "`/faces/sicoob+homologation` it is always refused, as two sources saw; a token and a certificate are asked for there "
        "all the same."),
    Row("pagamentos.pagar_qrcode", "POST", f"{_SENDING}/qrcode", "transfer.write", "payments", send.pay_qr_code, "read",
        "No code has fine or interest. Names of refusals are inferred."),
    Row("pagamentos.consultar", "GET", f"{_SENDING}/{{id}}", "transfer.read", "payments", send.get_by_end_to_end_id, "read",
        "NÃO_REALIZADO is what provably never left, which is inferred."),
    Row("saldo", "GET", f"{_ACCOUNT}/saldo", "ledger.read", "account", account.read_balance, "read",
        "Nothing is ever blocked, and there is no limit. The header client_id is ignored."),
    Row("extrato", "GET", f"{_ACCOUNT}/extrato/{{mes}}/{{ano}}", "ledger.read", "account", account.list_month, "read",
        "At most 10,000 lines. The forms of dates, texts and document numbers are inferred, agruparCNAB is ignored."),
)
# fmt: on


def list_sicoob_rows(face: Face) -> list[FaceOperation]:
    rows = [*with_codes(list_standard_rows(face.profile)), *_OWN]
    return send_nothing(rows) if face.is_homologation else rows
