"""Sicoob's interface as one table: what the standard has by its profile, and what is its own."""

from __future__ import annotations

from typing import Final

from pixconnect.api.faces.frame import Face, FaceOperation, list_standard_rows
from pixconnect.api.faces.frame import FaceOperation as Row
from pixconnect.api.faces.sicoob import account, homologation, receive, send

_PIX: Final = "/pix/api/v2"
_SENDING: Final = "/pix-pagamentos/v2/pagamentos"
_ACCOUNT: Final = "/conta-corrente/v4"

# A row's columns stay in the same two lines of their own, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("cob.imagem", "GET", f"{_PIX}/cob/{{txid}}/imagem", "cob.read", "pix", receive.draw_charge, "read",
        "The picture has one width, whatever largura says."),
    Row("cobv.imagem", "GET", f"{_PIX}/cobv/{{txid}}/imagem", "cobv.read", "pix", receive.draw_due_charge, "read", "As above."),
    Row("loc.imagem", "GET", f"{_PIX}/loc/{{id}}/imagem", "payloadlocation.read", "pix", receive.draw_located_charge, "read",
        "As above."),
    Row("pagamentos.webhook.configurar", "PUT", f"{_SENDING}/webhook", "webhook.write", "payments",
        receive.put_sent_webhook, "read",
        "Notices go to the URL with /lancamento at the end. Retries come as our own webhooks' do, among which it is listed."),
    # Its scope is one for reading and writing.
    Row("pagamentos.webhook.consultar", "GET", f"{_SENDING}/webhook", "webhook.write", "payments",
        receive.get_sent_webhook, "read"),
    Row("pagamentos.webhook.remover", "DELETE", f"{_SENDING}/webhook", "webhook.write", "payments",
        receive.drop_sent_webhook, "read"),
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
    rows = [*receive.with_codes(list_standard_rows(face.profile)), *_OWN]
    return homologation.send_nothing(rows) if face.is_homologation else rows
