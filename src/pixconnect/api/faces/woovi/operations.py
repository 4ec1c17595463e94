"""Woovi's interface as one table: all of it is its own."""

from __future__ import annotations

from typing import Final

from pixconnect.api.faces.fault import ListTraits
from pixconnect.api.faces.frame import Face, FaceOperation
from pixconnect.api.faces.frame import FaceOperation as Row
from pixconnect.api.faces.woovi import account, charge, pix, pix_key, refund, send, webhook

_SLICED: Final = ListTraits(skip="skip")

# A row's columns stay in the same two lines of their own, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("cobranca.criar", "POST", "/api/v1/charge", "charge.write", "general", charge.create_charge, "read",
        "Only DYNAMIC. Of a customer the name and the taxID are kept; splits, subaccounts, ensureSameTaxID and the like are "
        "ignored. Links of pages and pictures lead nowhere. Bounds of texts are ours."),
    Row("cobranca.consultar", "GET", "/api/v1/charge/{id}", "charge.read", "general", charge.get_named_charge, "read",
        "By correlationID or transactionID. One that was removed is EXPIRED: no source says what it is then."),
    Row("cobranca.listar", "GET", "/api/v1/charge", "charge.read", "general", charge.list_charges, "read",
        "By when it was made, the newest first, which is inferred. Filters customer and subscription are ignored.",
        listed=_SLICED),
    Row("cobranca.prazo", "PATCH", "/api/v1/charge/{id}", "charge.write", "general", charge.change_expiry, "read"),
    Row("cobranca.remover", "DELETE", "/api/v1/charge/{id}", "charge.write", "general", charge.remove_charge, "read"),
    Row("cobranca.estornar", "POST", "/api/v1/charge/{id}/refund", "refund.write", "general", refund.refund_charge, "read"),
    Row("cobranca.estornos", "GET", "/api/v1/charge/{id}/refund", "refund.read", "general", refund.list_charge_refunds, "read"),
    Row("estorno.pedir", "POST", "/api/v1/refund", "refund.write", "general", refund.refund_pix, "read"),
    Row("estorno.consultar", "GET", "/api/v1/refund/{id}", "refund.read", "general", refund.get_named_refund, "read"),
    Row("estorno.listar", "GET", "/api/v1/refund", "refund.read", "general", refund.list_refunds, "read",
        "What came back of sends is among them.",
        listed=_SLICED),
    Row("transacao.consultar", "GET", "/api/v1/transaction/{id}", "transfer.read", "general", pix.get_pix_either_way,
        "read", "By end-to-end id only."),
    Row("transacao.listar", "GET", "/api/v1/transaction", "transfer.read", "general", pix.list_pix_both_ways, "read",
        "Refunds are at /refund, and fees in the statement alone. By when it was made. Filters pixQrCode and "
        "hasWebhook are ignored. By type at most 10,000 are searched: where there are more, start and end must be nearer.",
        listed=_SLICED),
    Row("webhook.criar", "POST", "/api/v1/webhook", "webhook.write", "general", webhook.add_event_webhook, "read",
        "The answer has hmacSecret besides, which their dashboard shows. Events that never happen here are refused. An "
        "answer is waited for as long as our own webhooks do, and not 100 s; it is listed among those."),
    Row("webhook.listar", "GET", "/api/v1/webhook", "webhook.read", "general", webhook.list_event_webhooks, "read"),
    Row("webhook.remover", "DELETE", "/api/v1/webhook/{id}", "webhook.write", "general", webhook.remove_event_webhook, "read"),
    Row("webhook.chaves", "GET", "/api/v1/webhook/public-keys", None, "general", webhook.list_public_keys, "read",
        "The key is ours: what has theirs built in refuses our callbacks."),
    Row("pagamento.criar", "POST", "/api/v1/payment", "transfer.write", "payment", send.prepare_send, "read",
        "metadata, sourceAccountId and pixKeyEndToEndId are ignored. No correlationID is approve, which is a path. A psp is an "
        "ISPB. That a key which nobody has is refused already here is inferred."),
    Row("pagamento.aprovar", "POST", "/api/v1/payment/approve", "transfer.write", "payment", send.approve_send, "read",
        "A limit that is exceeded, or a payee that is gone, is refused at once, and it can be approved later."),
    Row("pagamento.consultar", "GET", "/api/v1/payment/{id}", "transfer.read", "payment", send.get_send, "read",
        "By correlationID only."),
    Row("pagamento.listar", "GET", "/api/v1/payment", "transfer.read", "payment", send.list_sends, "read",
        listed=_SLICED),
    Row("contas.listar", "GET", "/api/v1/account", "ledger.read", "general", account.list_accounts, "read",
        "There is one account; what is reserved for sends is blocked.",
        listed=_SLICED),
    Row("conta.consultar", "GET", "/api/v1/account/{accountId}", "ledger.read", "general", account.get_account, "read"),
    Row("extrato", "GET", "/api/v1/statement", "ledger.read", "general", account.read_statement, "read",
        "Its order, its descriptions and what stands in transactionId are inferred.",
        listed=_SLICED),
    Row("chave.conferir", "GET", "/api/v1/pix-keys/{pixKey}/check", "transfer.read", "key", pix_key.check_key_in_path, "read",
        "A look-up costs tokens and nothing else, and is never switched off."),
    Row("chave.conferir_no_corpo", "POST", "/api/v1/pix-keys/check", "transfer.read", "key_in_body",
        pix_key.check_key_in_body, "read", "As above."),
    Row("chaves.fichas", "GET", "/api/v1/pix-keys/tokens", "transfer.read", "key", pix_key.read_tokens, "read",
        "Each process counts its own; the bucket is the account's."),
)
_OF_TESTS: Final = (
    Row("teste.pagar", "GET", "/openpix/testing", "pix.write", "general", charge.pay_in_test, "read",
        "Only below `/faces/woovi+homologation`. What it answers is inferred; static codes are not paid."),
)
# fmt: on


def list_woovi_rows(face: Face) -> list[FaceOperation]:
    return [*_OWN, *_OF_TESTS] if face.is_homologation else [*_OWN]
