"""Efi's interface as one table: the standard by its profile, its own operations, and contests (MED)."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Final, Literal

from msgspec import Meta, Struct, structs

from pixconnect.doors.api.document import Document
from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.contests.rules.infraction import Infraction, InfractionAnswered
from pixconnect.features.contests.service import defence as defence_usecases
from pixconnect.features.due_charges import api as due_records
from pixconnect.features.pix_api.api import charge_records, frame, location, webhook
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service import charge as charge_usecases
from pixconnect.features.pix_api.service import key_webhook as key_webhook_usecases
from pixconnect.features.pix_api.service import location as location_usecases
from pixconnect.features.pix_api.service import pix as pix_usecases
from pixconnect.kernel.rules import tax_id
from pixconnect.kernel.rules.block_report import InfractionState
from pixconnect.kernel.rules.br_code import BR_CODE_LENGTH_MAX
from pixconnect.kernel.rules.event import EventName
from pixconnect.kernel.rules.listing import Span
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.transfer import Direction
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect.platform.base.errors import Violated, Violation
from pixconnect_faces.efi import account, dynamic_code, homologation, send
from pixconnect_faces.efi.homologation import pay_soon
from pixconnect_faces.frame import Face, FaceResponder, list_standard_rows, probe
from pixconnect_faces.frame import FaceOperation as Row
from pixconnect_faces.refusals import NamedRefusal

TEXT_LENGTH_MAX: Final = 1000
_WORDS: Final = dict[InfractionState, str](
    (("open", "ABERTA"), ("answered", "EM_DEFESA"), ("taken", "ACEITA"), ("released", "REJEITADA"))
)
_READ_MAX: Final = 1000
"""Maximum in a sandbox."""
_REASONS: Final = dict(fraud="FRAUDE", operational_flaw="FALHA_OPERACIONAL")


class Defesa(Struct, frozen=True, kw_only=True):
    analise: Literal["rejeitado"]
    justificativa: Annotated[str, Meta(min_length=1, max_length=TEXT_LENGTH_MAX)]


_Listed = tuple[Infraction, datetime]
"""With when the payment was made."""


async def list_contests(face: Face, services: Services, request: Asked) -> Shown:
    """As infrações de um intervalo, da mais nova à mais antiga."""
    face.refuse_in_tests("SWITCHED_OFF")
    parameters = request.query.under(frame.PeriodQuery, "consulta")
    interval, page = frame.read_interval(parameters), frame.read_page(parameters)
    parameters.raise_if_any()
    is_by_paid = face.choose(services, "contest_interval") == "paid"
    listed = [
        one for one in await _read_all(services, request) if _is_within(one[1] if is_by_paid else one[0].opened_at, interval)
    ]
    shown = listed[page.number * page.size : (page.number + 1) * page.size]
    parametros = frame.describe(interval, page, len(listed), frame.Parametros)
    return {"parametros": parametros, "infracoes": [_show(*one) for one in shown]}


async def defend_contest(face: Face, services: Services, request: Asked) -> Reply:
    """Responde a uma infração, uma vez."""
    face.refuse_in_tests("SWITCHED_OFF")
    body = request.body.under(Defesa, "infracao")
    body.choice("analise")
    text = body.text("justificativa")
    body.raise_if_any()
    (name,) = request.parameter
    found = next((one for one in await _read_all(services, request) if one[0].name == name), None)
    infraction, paid_at = errors.found(found, "id: there is no such infraction")
    # A second answer is refused here, with any contents.
    if infraction.defence is not None:
        raise InfractionAnswered("justificativa: it was answered before")
    shown = await defence_usecases.defend(services.context, request.caller, infraction.id, text or "")
    return Reply(status=201, record=_show(shown.infraction, paid_at))


async def _read_all(services: Services, request: Asked) -> Sequence[_Listed]:
    context, caller = services.context, request.caller
    found = await defence_usecases.list_infractions(context, caller, None, Span(page_size=_READ_MAX))
    listed = list[_Listed]()
    for shown in found.items:
        paid = await pix_usecases.read_pix(context, caller, shown.infraction.end_to_end_id)
        listed.append((shown.infraction, datetime.fromisoformat(paid.horario)))
    return listed


def _is_within(instant: datetime, interval: frame.Interval) -> bool:
    begin, end = interval.inicio, interval.fim
    return (begin is None or instant >= begin) and (end is None or instant <= end)


def _show(infraction: Infraction, paid_at: datetime) -> Shown:
    return without_none(
        {
            "idInfracao": infraction.name,
            "endToEndId": infraction.end_to_end_id,
            "protocolo": str(infraction.id),
            "dataTransacao": format_milliseconds(paid_at),
            "valor": format_reais(infraction.amount_cents),
            "status": _WORDS[infraction.state],
            "razao": _REASONS[infraction.reason],
            "tipoSituacao": infraction.situation.upper(),
            "comentario": infraction.words,
            "defesa": infraction.defence,
            "dadosAnalise": without_none(
                {
                    "abertura": format_milliseconds(infraction.opened_at),
                    "prazoFinalizacao": format_milliseconds(infraction.respond_by),
                    "recebimentoDefesa": infraction.defended_at and format_milliseconds(infraction.defended_at),
                    "finalizacao": None if infraction.is_open else format_milliseconds(infraction.modified_at),
                }
            ),
            "criadoEm": format_milliseconds(infraction.opened_at),
            "atualizadoEm": format_milliseconds(infraction.modified_at),
        }
    )


EndToEndId = Annotated[str, Meta(pattern="^E[0-9]{20}[a-zA-Z0-9]{11}$")]


class ReenvioDeAvisos(Struct, frozen=True, kw_only=True):
    tipo: Literal["PIX_RECEBIDO", "PIX_ENVIADO", "DEVOLUCAO_RECEBIDA", "DEVOLUCAO_ENVIADA"]
    e2eids: Annotated[Sequence[EndToEndId], Meta(min_length=1, max_length=1000)]


_RESENT_FOR: Final = timedelta(days=30)
_TOLD: Final[Mapping[str, tuple[Direction, Sequence[EventName]]]] = {
    "PIX_RECEBIDO": ("IN", ("transfer.in.confirmed",)),
    "PIX_ENVIADO": ("OUT", ("transfer.out.confirmed", "transfer.out.error")),
    "DEVOLUCAO_ENVIADA": ("IN", ("refund.out.returned", "refund.out.error")),
    # No webhook reports these here.
    "DEVOLUCAO_RECEBIDA": ("OUT", ("refund.in.returned",)),
}


async def draw_location(face: Face, services: Services, request: Asked) -> Shown:
    """O QR Code da cobrança de uma location, também como imagem."""
    context, caller = services.context, request.caller
    place, txid = await location_usecases.read_location(context, caller, location.read_id(request))
    txid = errors.found(txid, "id: this location leads to no charge")
    read = await charge_usecases.read_charge(context, caller, txid, kind=place.kind)
    code = read.charge.br_code
    picture = base64.b64encode(await services.draw_qr_png(code)).decode()
    return {
        "qrcode": code,
        "imagemQrcode": f"data:image/png;base64,{picture}",
        "linkVisualizacao": f"https://{context.policy.location_prefix}{place.path}",
    }


async def put_probed_webhook(face: Face, services: Services, request: Asked) -> Reply:
    async def post_test(url: str) -> None:
        event = dict(evento="teste_webhook", data_criacao=format_milliseconds(services.context.clock.now()))
        await probe(services, "webhookUrl", url, [("content-type", "application/json")], event)

    url = await webhook.set_up(services, request, face.profile, post_test)
    return Reply(status=201, record=webhook.WebhookSolicitado(webhook_url=url))


async def resend_notices(face: Face, services: Services, request: Asked) -> Reply:
    """Manda de novo o que os webhooks das chaves foram avisados de alguns Pix."""
    body = request.body.under(ReenvioDeAvisos, "webhook")
    kind, ids = body.choice("tipo"), body.texts("e2eids")
    body.raise_if_any()
    direction, event_types = _TOLD[kind or ""]
    context = services.context
    since = context.clock.now() - _RESENT_FOR
    await key_webhook_usecases.redeliver_notices(context, request.caller, ids or (), direction, event_types, since)
    return Reply(status=202)


async def _make_and_pay(respond: FaceResponder, face: Face, services: Services, request: Asked) -> Reply | Document | Shown:
    """Pay a small charge automatically as the institution's test environment does."""
    reply = await respond(face, services, request)
    made = reply.record if isinstance(reply, Reply) else None
    if isinstance(made, charge_records.CobCompleta | due_records.CobVCompleta):
        amount_cents, code = int(made.valor.original.replace(".", "")), made.pix_copia_e_cola
        if code is not None and 0 < amount_cents <= face.profile.homologation.paid_cents_max:
            await pay_soon(services, request.caller, code)
    return reply


class CodigoADetalhar(Struct, frozen=True, kw_only=True, rename="camel"):
    pix_copia_e_cola: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


async def detail_code(face: Face, services: Services, request: Asked) -> Shown:
    """Mostra a cobrança de um código dinâmico, sem a pagar."""
    face.refuse_in_tests("SWITCHED_OFF")
    body = request.body.under(CodigoADetalhar, "qrcode")
    text = body.text("pixCopiaECola")
    body.raise_if_any()
    context = services.context
    try:
        code = await dynamic_code.read_dynamic_code(context, request.caller, text or "")
    except dynamic_code.CodeIsStatic:
        raise _refusal("é de uma cobrança estática") from None
    except dynamic_code.CodeHasDueDate:
        raise _refusal("é de uma cobrança com vencimento, que aqui não é detalhada") from None
    except (errors.PixKeyNotFound, errors.SameAccount):
        raise _refusal("tem uma chave de recebedor que não foi encontrada") from None
    except errors.InvalidQrCode:
        raise NamedRefusal("NO_CODE", "é inválido", [_row("é inválido")]) from None
    return without_none(
        {
            "tipoCob": "cob",
            "txid": code.txid,
            "revisao": code.revision,
            "calendario": {
                "criacao": format_milliseconds(code.created_at),
                "apresentacao": format_milliseconds(max(context.clock.now(), code.created_at)),
                "expiracao": code.lifetime_s,
            },
            "status": code.status,
            "devedor": code.payer and _show_person(code.payer.name, code.payer.tax_id),
            "recebedor": _show_person(code.payee.name, code.payee.tax_id),
            "valor": {face.choose(services, "code_amount"): format_reais(code.amount_cents)},
            "chave": code.key,
            "solicitacaoPagador": code.question,
            "infoAdicionais": [dict(nome=line.name, valor=line.value) for line in code.lines] or None,
        }
    )


def _show_person(name: str, number: str) -> Shown:
    return dict(nome=name, cpf=tax_id.mask_cpf(number)) if tax_id.is_cpf(number) else dict(nome=name, cnpj=number)


def _row(reason: str) -> Violation:
    return Violation(property="qrcode.pixCopiaECola", reason=reason)


def _refusal(reason: str) -> Violated:
    return Violated("qrcode", [_row(reason)])


# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("loc.qrcode", "GET", "/v2/loc/{id}/qrcode", "payloadlocation.read", "loc", draw_location, "read",
        "linkVisualizacao leads to the payload and not to a page."),
    Row("webhook.configurar", "PUT", "/v2/webhook/{chave}", "webhook.write", "webhook", put_probed_webhook, "read",
        "One probe, with our certificate if there is one; what it posts is inferred. That a request without the "
        "certificate is refused is not tested, with any x-skip-mtls-checking says. Retries come as our own "
        "webhooks' do.",
        ("webhookUrl",)),
    Row("webhook.reenviar", "POST", "/v2/gn/webhook/reenviar", "webhook.write", "resend", resend_notices, "read",
        "Notices are resent in their original bodies, and retries come as our own webhooks' do. That 202 without a "
        "body is the answer, and that ids without a notice are skipped, is inferred. DEVOLUCAO_RECEBIDA sends "
        "nothing: no webhook reports it here.", ("tipo", "e2eids")),
    Row("qrcode.detalhar", "POST", "/v2/gn/qrcodes/detalhar", "transfer.read", "qrcode", detail_code, "read",
        "The recebedor has no address. A charge with a due date is 400.", ("pixCopiaECola",)),
    Row("chaves.listar_evp", "GET", "/v2/gn/evp", "ledger.read", "general", account.list_random_keys, "read"),
    Row("pix.enviar", "PUT", "/v3/gn/pix/{idEnvio}", "transfer.write", "send", send.send_pix, "read",
        "The end-to-end id names the sandbox's institution. Insufficient money is refused at once: the "
        "institution's behaviour is undocumented.",
        ("valor", "pagador", "favorecido")),
    Row("pix.enviar_v2", "PUT", "/v2/gn/pix/{idEnvio}", "transfer.write", "send", send.send_pix, "one source",
        "As version 3.", ("valor", "pagador", "favorecido")),
    Row("pix.enviar_mesma_titularidade", "PUT", "/v2/gn/pix/{idEnvio}/mesma-titularidade", "transfer.write", "send",
        partial(send.send_pix, is_to_own_account=True), "one source",
        "That another owner is refused as one that the key has not is inferred.", ("valor", "pagador", "favorecido")),
    Row("pix.pagar_qrcode", "PUT", "/v2/gn/pix/{idEnvio}/qrcode", "transfer.write", "code", send.pay_code, "read",
        "That a code which cannot be paid is refused as it is where it is read is inferred. All else is refused as of an "
        "ordinary send.",
        ("pagador", "pixCopiaECola")),
    Row("chaves.balde", "GET", "/v2/gn/chaves/balde", "transfer.read", "general", account.read_buckets, "one source",
        "Both buckets are one here, and each process counts its own; a key that is paid costs nothing in the end."),
    Row("pix.enviados", "GET", "/v2/gn/pix/enviados", "transfer.read", "sent", send.list_sent, "read",
        "Filters devolucaoPresente, cpf, cnpj are ignored; wholly returned Pix are not found by status."),
    Row("pix.enviado_por_id", "GET", "/v2/gn/pix/enviados/id-envio/{idEnvio}", "transfer.read", "sent",
        partial(send.get_sent, "id_envio"), "read"),
    Row("pix.enviado", "GET", "/v2/gn/pix/enviados/{e2eid}", "transfer.read", "sent",
        partial(send.get_sent, "end_to_end_id"), "read",
        "favorecido has identificacao only where it is chosen."),
    Row("saldo", "GET", "/v2/gn/saldo", "ledger.read", "general", account.read_balance, "read",
        "All blocked money is reported as med."),
    Row("infracoes.listar", "GET", "/v2/gn/infracoes", "infraction.read", "infraction", list_contests, "read",
        "The names of the list's member and of its pages are inferred from other lists; razao and tipoSituacao are "
        "the directory's words. A decision for you is REJEITADA."),
    Row("infracoes.defender", "POST", "/v2/gn/infracoes/{id}/defesa", "infraction.write", "infraction",
        defend_contest, "read", "The names of its refusals are inferred. The analysis aceito is 400: the library "
        "has rejeitado alone.", ("analise", "justificativa")),
    Row("relatorio.solicitar", "POST", "/v2/gn/relatorios/extrato-conciliacao", "ledger.read", "report",
        account.request_report, "read", "All kinds of records are written, regardless of the requested ones."),
    Row("relatorio.consultar", "GET", "/v2/gn/relatorios/{id}", "ledger.read", "report", account.get_report, "one source",
        "Ready after a second. An order that failed has both its records at its end; a day of more than 1000 lines has none."),
)
# fmt: on
_IN_TESTS: Final = {
    **dict.fromkeys(("cob.criar", "cob.criar_com_txid", "cobv.criar_com_txid"), _make_and_pay),
    "devolucao.solicitar": homologation.refund_or_reject,
}


def list_rows(face: Face) -> list[Row]:
    rows = [*list_standard_rows(face.profile), *_OWN]
    changed = _IN_TESTS if face.is_homologation else {}
    return [structs.replace(row, handler=partial(changed[row.id], row.handler)) if row.id in changed else row for row in rows]
