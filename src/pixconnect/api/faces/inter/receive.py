"""Inter's own traits in receiving: its webhooks, and the payer that its test environment plays."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta, Struct, structs

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard import webhook
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import TXID, Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.frame.clock import format_milliseconds
from pixconnect.domain.money.br_code import BR_CODE_LENGTH_MAX
from pixconnect.domain.simulation.sandbox_control import OutsidePayer
from pixconnect.domain.standard.location import AT_ONCE, WITH_DUE_DATE, LocationKind
from pixconnect.usecases.simulation import sandbox as sandbox_usecases
from pixconnect.usecases.standard import charge as charge_usecases
from pixconnect.usecases.webhooks import account_webhook

_PHONE: Final = re.compile(r"55[0-9]{10,11}")


class PagamentoSimulado(Struct, frozen=True, kw_only=True):
    valor: float


class CodigoSimulado(PagamentoSimulado, frozen=True, kw_only=True, rename="camel"):
    qr_code: Annotated[str, Meta(min_length=1, max_length=BR_CODE_LENGTH_MAX)]


class PixSimulado(Struct, frozen=True, kw_only=True, rename="camel"):
    """O Pix que o ambiente de testes fez."""

    end_to_end: str


class WebhookDosEnvios(Struct, frozen=True, kw_only=True, rename="camel"):
    webhook_url: str
    criacao: str


async def put_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Configura o webhook de uma chave."""
    await webhook.set_up(services, _with_plus(request), face.profile)
    return Reply(status=204)


async def get_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Consulta o webhook de uma chave."""
    return await webhook.get_webhook(services, _with_plus(request))


async def remove_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Remove o webhook de uma chave."""
    return await webhook.delete_webhook(services, _with_plus(request))


async def put_send_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Configura o webhook dos envios da conta."""
    _check_kind(request)
    violations = Violations("webhook")
    body = Members(violations, webhook.WebhookSolicitado, request.body.require("webhook"), "")
    url = body.text("webhookUrl")
    violations.raise_if_any()
    await account_webhook.set_account_webhook(services.context, request.caller, url or "", face.profile)
    return Reply(status=204)


async def get_send_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Consulta o webhook dos envios da conta."""
    _check_kind(request)
    found = await account_webhook.read_account_webhook(services.context, request.caller, face.profile)
    created_at = format_milliseconds(found.created_at)
    return Reply(status=200, record=WebhookDosEnvios(webhook_url=found.url, criacao=created_at))


async def remove_send_webhook(face: Face, services: Services, request: Asked) -> Reply:
    """Remove o webhook dos envios da conta."""
    _check_kind(request)
    await account_webhook.delete_account_webhook(services.context, request.caller, face.profile)
    return Reply(status=204)


def _check_kind(request: Asked) -> None:
    if request.parameter != ("pix-pagamento",):
        raise errors.NotFound("tipoWebhook: there are only webhooks of pix-pagamento")


def _with_plus(request: Asked) -> Asked:
    """A telephone stands in these paths without its plus, and so it can be neither a CPF nor a CNPJ."""
    (key,) = request.parameter
    return structs.replace(request, parameter=(f"+{key}",)) if _PHONE.fullmatch(key) else request


async def pay_by_txid(face: Face, services: Services, request: Asked) -> Reply:
    """Paga uma cobrança, como alguém de fora."""
    return await _pay_charge(services, request, AT_ONCE)


async def pay_due_by_txid(face: Face, services: Services, request: Asked) -> Reply:
    """Paga uma cobrança com vencimento, como alguém de fora."""
    return await _pay_charge(services, request, WITH_DUE_DATE)


async def _pay_charge(services: Services, request: Asked, kind: LocationKind) -> Reply:
    (txid,) = request.parameter
    violations = Violations("pagamento")
    amount_cents = Members(violations, PagamentoSimulado, request.body.require("pagamento"), "").reais("valor")
    violations.raise_if_any()
    if not TXID.fullmatch(txid):
        raise errors.NotFound("txid: there is no such charge")
    read = await charge_usecases.read_charge(services.context, request.caller, txid, kind=kind)
    return await _pay(services, request, read.charge.br_code, amount_cents)


async def pay_br_code(face: Face, services: Services, request: Asked) -> Reply:
    """Paga um código, como alguém de fora."""
    violations = Violations("pagamento")
    body = Members(violations, CodigoSimulado, request.body.require("pagamento"), "")
    code = body.text("qrCode")
    amount_cents = body.reais("valor")
    violations.raise_if_any()
    return await _pay(services, request, code or "", amount_cents)


async def _pay(services: Services, request: Asked, code: str, amount_cents: int | None) -> Reply:
    payer = OutsidePayer()
    paid = await sandbox_usecases.pay_by_code(services.context, request.caller, code, amount_cents or 0, payer)
    if paid.status == "ERROR":
        raise NamedRefusal("NOT_PAID", f"valor: o pagamento foi recusado ({paid.code})")
    return Reply(status=200, record=PixSimulado(end_to_end=paid.id))
