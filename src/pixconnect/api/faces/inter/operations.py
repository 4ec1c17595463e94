"""Inter's interface as one table: what the standard has by its profile, and what is its own."""

from __future__ import annotations

from typing import Final

from pixconnect.api.faces.fault import ListTraits
from pixconnect.api.faces.frame import Face, FaceOperation, list_standard_rows
from pixconnect.api.faces.frame import FaceOperation as Row
from pixconnect.api.faces.inter import account, receive, send

# A row's columns stay in the same two lines of their own, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("webhook.configurar", "PUT", "/pix/v2/webhook/{chave}", "webhook.write", "webhook", receive.put_webhook, "read",
        "A URL that cannot be is 400: no source says what happens. Notices have no x-conta-corrente; retries come as our own "
        "webhooks' do."),
    Row("webhook.consultar", "GET", "/pix/v2/webhook/{chave}", "webhook.read", "webhook", receive.get_webhook, "read"),
    Row("webhook.remover", "DELETE", "/pix/v2/webhook/{chave}", "webhook.write", "webhook", receive.remove_webhook, "read"),
    Row("pix.enviar", "POST", "/banking/v2/pix", "transfer.write", "banking", send.send_from_account, "read",
        "A later dataPagamento is refused: nothing is scheduled. Too little money is refused at once, and what waits for a "
        "person is reserved meanwhile: no source says what happens. x-conta-corrente is ignored."),
    Row("pix.enviado", "GET", "/banking/v2/pix/{codigoSolicitacao}", "transfer.read", "banking", send.get_sent, "read",
        "What is under way is ENVIADO, or AGUARDANDO_APROVACAO: the states between are not told apart. That instants have no "
        "offset is inferred."),
    Row("envios.webhook.configurar", "PUT", "/banking/v2/webhooks/{tipoWebhook}", "webhook.write", "banking",
        receive.put_send_webhook, "read",
        "Only pix-pagamento, and one body for each send. The API document hints that it goes to the URL with /pix-pagamento at "
        "the end. Retries come as our own webhooks' do, among which it is listed."),
    Row("envios.webhook.consultar", "GET", "/banking/v2/webhooks/{tipoWebhook}", "webhook.read", "banking",
        receive.get_send_webhook, "read"),
    Row("envios.webhook.remover", "DELETE", "/banking/v2/webhooks/{tipoWebhook}", "webhook.write", "banking",
        receive.remove_send_webhook, "read"),
    Row("saldo", "GET", "/banking/v2/saldo", "ledger.read", "banking", account.read_balance, "read",
        "Nothing is ever blocked. The balance of a past day has in it what was reserved then."),
    Row("extrato", "GET", "/banking/v2/extrato", "ledger.read", "banking", account.list_simple, "read",
        "At most 10,000 lines; their titles and their order are inferred."),
    Row("extrato.completo", "GET", "/banking/v2/extrato/completo", "ledger.read", "banking", account.list_complete, "read",
        "Without scroll. Accounts and institutions of the two sides are left out. Order, titles and kinds but PIX, ESTORNO and "
        "TARIFA are inferred.", listed=ListTraits(page="pagina", page_count="numeroDeElementos")),
)
_OF_TESTS: Final = (
    Row("sandbox.pagar_cob", "POST", "/pix/v2/cob/pagar/{txid}", "pix.write", "cob", receive.pay_by_txid, "read",
        "Only below `/faces/inter+homologation`. What it answers is inferred."),
    Row("sandbox.pagar_cobv", "POST", "/pix/v2/cobv/pagar/{txid}", "pix.write", "cobv", receive.pay_due_by_txid, "read",
        "As above; any other amount than that of the day is refused."),
    Row("sandbox.pagar_codigo", "POST", "/pix/v2/sandbox/cob/pagamento", "pix.write", "cob", receive.pay_br_code, "read",
        "Only below `/faces/inter+homologation`."),
)
# fmt: on


def list_inter_rows(face: Face) -> list[FaceOperation]:
    rows = [*list_standard_rows(face.profile), *_OWN]
    return [*rows, *_OF_TESTS] if face.is_homologation else rows
