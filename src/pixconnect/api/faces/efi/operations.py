"""Efi's interface as one table: what the standard has by its profile, and what is its own."""

from __future__ import annotations

from typing import Final

from pixconnect.api.faces.efi import account, contest, homologation, qr_code, receive, send
from pixconnect.api.faces.frame import Face, FaceOperation, list_standard_rows
from pixconnect.api.faces.frame import FaceOperation as Row

# A row's columns stay in the same two lines of their own, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("loc.qrcode", "GET", "/v2/loc/{id}/qrcode", "payloadlocation.read", "loc", receive.draw_location, "read",
        "linkVisualizacao leads to the payload and not to a page."),
    Row("webhook.configurar", "PUT", "/v2/webhook/{chave}", "webhook.write", "webhook", receive.put_probed_webhook, "read",
        "One probe, with our certificate if there is one; what it posts is inferred. That a request without the "
        "certificate is refused is not tested, whatever x-skip-mtls-checking says. Retries come as our own webhooks' do.",
        ("webhookUrl",)),
    Row("webhook.reenviar", "POST", "/v2/gn/webhook/reenviar", "webhook.write", "resend", receive.resend_notices, "read",
        "What was told goes again in the bodies that it was told in, and retries come as our own webhooks' do. That 202 "
        "without a body is the answer, and that ids of which nothing was told are passed over, is inferred. "
        "DEVOLUCAO_RECEBIDA sends nothing: no webhook is told of it here.", ("tipo", "e2eids")),
    Row("qrcode.detalhar", "POST", "/v2/gn/qrcodes/detalhar", "transfer.read", "qrcode", qr_code.detail_code, "read",
        "The recebedor has no address. A charge with a due date is 400.", ("pixCopiaECola",)),
    Row("chaves.listar_evp", "GET", "/v2/gn/evp", "ledger.read", "general", account.list_random_keys, "read"),
    Row("pix.enviar", "PUT", "/v3/gn/pix/{idEnvio}", "transfer.write", "send", send.send_pix, "read",
        "The end-to-end id names the sandbox's institution. Too little money is refused at once: no source says what happens.",
        ("valor", "pagador", "favorecido")),
    Row("pix.enviar_v2", "PUT", "/v2/gn/pix/{idEnvio}", "transfer.write", "send", send.send_pix, "one source",
        "As version 3.", ("valor", "pagador", "favorecido")),
    Row("pix.enviar_mesma_titularidade", "PUT", "/v2/gn/pix/{idEnvio}/mesma-titularidade", "transfer.write", "send",
        send.send_to_own_account, "one source", "That another owner is refused as one that the key has not is inferred.",
        ("valor", "pagador", "favorecido")),
    Row("pix.pagar_qrcode", "PUT", "/v2/gn/pix/{idEnvio}/qrcode", "transfer.write", "code", send.pay_code, "read",
        "That a code which cannot be paid is refused as it is where it is read is inferred. All else is refused as of an "
        "ordinary send.",
        ("pagador", "pixCopiaECola")),
    Row("chaves.balde", "GET", "/v2/gn/chaves/balde", "transfer.read", "general", account.read_buckets, "one source",
        "Both buckets are one here, and each process counts its own; a key that is paid costs nothing in the end."),
    Row("pix.enviados", "GET", "/v2/gn/pix/enviados", "transfer.read", "sent", send.list_sent, "read",
        "Filters devolucaoPresente, cpf, cnpj are ignored; what was returned wholly is not found by status."),
    Row("pix.enviado_por_id", "GET", "/v2/gn/pix/enviados/id-envio/{idEnvio}", "transfer.read", "sent",
        send.get_sent_by_name, "read"),
    Row("pix.enviado", "GET", "/v2/gn/pix/enviados/{e2eid}", "transfer.read", "sent", send.get_sent_by_e2eid, "read",
        "favorecido has identificacao only where it is chosen."),
    Row("saldo", "GET", "/v2/gn/saldo", "ledger.read", "general", account.read_balance, "read",
        "All that is blocked is told as med."),
    Row("infracoes.listar", "GET", "/v2/gn/infracoes", "infraction.read", "infraction", contest.list_contests, "read",
        "What the list's member and its pages are called is inferred from other lists; razao and tipoSituacao are the "
        "directory's words. What was decided for you is REJEITADA."),
    Row("infracoes.defender", "POST", "/v2/gn/infracoes/{id}/defesa", "infraction.write", "infraction",
        contest.defend_contest, "read", "The names of its refusals are inferred. The analysis aceito is 400: the library "
        "has rejeitado alone.", ("analise", "justificativa")),
    Row("relatorio.solicitar", "POST", "/v2/gn/relatorios/extrato-conciliacao", "ledger.read", "report",
        account.request_report, "read", "All kinds of records are written, whichever were asked for."),
    Row("relatorio.consultar", "GET", "/v2/gn/relatorios/{id}", "ledger.read", "report", account.get_report, "one source",
        "Ready after a second. An order that failed has both its records at its end; a day of more than 1000 lines has none."),
)
# fmt: on


def list_rows(face: Face) -> list[FaceOperation]:
    rows = [*list_standard_rows(face.profile), *_OWN]
    return homologation.reject_small_refunds(receive.pay_small_charges(face, rows)) if face.is_homologation else rows
