"""Woovi's interface as one table, all of it its own, and its webhooks: each has one event."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct, field

from pixconnect.doors.api.operation import Reply, Services
from pixconnect.features.pix_api.api.frame import Asked
from pixconnect.features.pix_api.api.violations import Violations
from pixconnect.features.pix_api.rules import Shown, without_none
from pixconnect.features.pix_api.service import event_callback
from pixconnect.features.pix_api.service.cents_records import show_cents_pix
from pixconnect.features.pix_api.service.event_callback import EventWebhook
from pixconnect.features.statements import service as statement_usecases
from pixconnect.features.webhooks.rules.endpoint import SECRET_LENGTH, EndpointRequest, make_standard_secret
from pixconnect.features.webhooks.service.endpoint import RECEIVERS, CallbackTerms
from pixconnect.kernel.flows import charge as charge_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows import payee as payee_usecases
from pixconnect.kernel.flows import transfer as transfer_usecases
from pixconnect.kernel.rules import identifiers, tax_id
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.holder import KEY_LENGTH_MAX, parse_pix_key
from pixconnect.kernel.rules.listing import SEARCHED_MAX, Page, SearchTooLarge, Span, TransferSearch
from pixconnect.kernel.rules.transfer import Direction, Transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.address_rules import URL_LENGTH_MAX
from pixconnect.platform.base.clock import format_milliseconds
from pixconnect_faces.fault import ListTraits
from pixconnect_faces.frame import Face, probe, read_own
from pixconnect_faces.frame import FaceOperation as Row
from pixconnect_faces.refusals import NamedRefusal
from pixconnect_faces.woovi import charge, send
from pixconnect_faces.woovi.charge import NAME, SliceQuery, find_named_charge, read_name, read_only_slice, read_slice

_USUAL: Final = "OPENPIX:TRANSACTION_RECEIVED"
# Requests to receivers are ASCII.
_HEADER: Final = re.compile(r"[\x20-\x7e]{0,1000}")
_ID: Final = re.compile(r"[0-9a-f]{24}")


class WebhookPedido(Struct, frozen=True, kw_only=True, rename="camel"):
    name: Annotated[str, Meta(max_length=255)] | None = None
    event: Annotated[str, Meta(max_length=100)] | None = None
    url: Annotated[str, Meta(min_length=1, max_length=URL_LENGTH_MAX)]
    authorization: Annotated[str, Meta(max_length=1000)] | None = None
    is_active: bool | None = None


class NovoWebhook(Struct, frozen=True, kw_only=True):
    webhook: WebhookPedido


async def add_event_webhook(face: Face, services: Services, request: Asked) -> Shown:
    context, events = services.context, face.profile.webhook.events
    whole = request.body.under(NovoWebhook, "webhook", "")
    sent = whole.object("webhook")
    whole.raise_if_any()
    body = errors.require(sent, "a missing value is a violation")
    event, url, name = body.text("event") or _USUAL, body.text("url"), body.text("name")
    authorization = body.text("authorization", pattern=_HEADER, reason="deve poder ser um cabeçalho, em ASCII")
    is_active = body.boolean("isActive")
    if event not in events:
        body.refuse("event", f"aqui deve ser {' ou '.join(events)}")
    body.raise_if_any()
    try:
        await context.port(RECEIVERS).check_url(url or "")
    except errors.InvalidWebhookUrl:
        raise NamedRefusal("URL", "url: deve ser https e levar a um endereço público") from None
    secret = make_standard_secret(context.entropy.octets(SECRET_LENGTH))
    wanted = EndpointRequest(url=url or "", secret=secret, event_types=[events[event]])
    terms = CallbackTerms(profile=face.profile.name, name=name, authorization=authorization or None)
    event_body = dict(data_criacao=format_milliseconds(context.clock.now()), evento="teste_webhook", event=event)
    content = msgspec.json.encode(event_body)
    headers = await event_callback.sign_as(context, face.profile, terms.authorization, secret, content)
    await probe(services, "url", wanted.url, headers, event_body)
    added = await event_callback.add_event_webhook(
        context, request.caller, face.profile, wanted, terms, is_active=is_active is not False
    )
    # Shown only on creation; at the institution its dashboard shows it.
    return {"webhook": _show_webhook(added) | {"hmacSecret": secret}}


async def list_event_webhooks(face: Face, services: Services, request: Asked) -> Shown:
    url = request.query.read(("url",)).get("url")
    found = await event_callback.list_event_webhooks(services.context, request.caller, face.profile)
    return {"webhooks": [_show_webhook(each) for each in found if url in (None, each.endpoint.url)]}


async def remove_event_webhook(face: Face, services: Services, request: Asked) -> Shown:
    name = read_name(request)
    if not _ID.fullmatch(name) or (number := int(name, 16)) >= 2**63:
        raise errors.NotFound("id: there is no such webhook")
    await event_callback.remove_event_webhook(services.context, request.caller, face.profile, number)
    return {"status": "OK"}


async def list_public_keys(face: Face, services: Services, request: Asked) -> Shown:
    found = await event_callback.list_callback_keys(services.context, face.profile.name)
    keys = [
        dict(key_identifier=key.key_identifier, key=key.public_pem, is_current=number == 0) for number, key in enumerate(found)
    ]
    return {"public_keys": keys}


def _show_webhook(webhook: EventWebhook) -> dict[str, object]:
    endpoint = webhook.endpoint
    return {
        "id": f"{endpoint.id:024x}",
        "name": endpoint.name or "",
        "event": webhook.event,
        "url": endpoint.url,
        "authorization": webhook.authorization or "",
        "isActive": endpoint.status == "active",
        "createdAt": format_milliseconds(endpoint.created_at),
        "updatedAt": format_milliseconds(endpoint.modified_at),
    }


_HIDDEN: Final = "****"
_REFRESH: Final = timedelta(minutes=1)


class ChavePedida(Struct, frozen=True, kw_only=True):
    key: Annotated[str, Meta(max_length=KEY_LENGTH_MAX)] = field(name="pixKey")


async def check_key_in_path(face: Face, services: Services, request: Asked) -> Shown:
    return await _check(services, request, read_name(request))


async def check_key_in_body(face: Face, services: Services, request: Asked) -> Shown:
    body = request.body.under(ChavePedida, "pixKey", "")
    text = body.text("pixKey")
    body.raise_if_any()
    return await _check(services, request, text or "")


async def _check(services: Services, request: Asked, text: str) -> Shown:
    context = services.context
    key = parse_pix_key(text)
    _, party = await payee_usecases.look_up_key(context, request.caller, key)
    owner = dict(account=_HIDDEN, branch=_HIDDEN, psp=party.ispb, name=party.name, taxID=_mask(party.tax_id))
    return {
        "pixKey": key.key,
        "type": key.key_type,
        "pixKeyEndToEndId": identifiers.make_end_to_end_id(context.policy.ispb, context.clock.now(), context.entropy),
        "owner": owner,
    }


async def read_tokens(face: Face, services: Services, request: Asked) -> Shown:
    context = services.context
    policy, left = await context.lookups.read_left(context, request.caller.holder_id)
    return {
        "tokens": left,
        "maxTokens": policy.tokens_max,
        "nextRefresh": format_milliseconds(context.clock.now() + _REFRESH),
        "tokensAfterRefresh": min(policy.tokens_max, left + policy.refill_a_minute),
        "refreshRate": policy.refill_a_minute,
    }


def _mask(number: str) -> str:
    if tax_id.is_cpf(number):
        return f"{number[:3]}.***.***-{number[-2:]}"
    return f"{number[:2]}.{number[2:5]}.{number[5:8]}/{number[8:12]}-{number[12:]}"


_DIRECTIONS: Final = dict[str, Direction](PAYMENT="IN", WITHDRAW="OUT")
_NOBODYS: Final = "0" * 32


class PixSliceQuery(SliceQuery, frozen=True, kw_only=True):
    kind: str | None = field(default=None, name="type")
    charge: str | None = None
    withdrawal: str | None = None


async def get_pix_either_way(face: Face, services: Services, request: Asked) -> Shown:
    context, caller = services.context, request.caller
    view = await transfer_usecases.read_transfer_by_end_to_end_id(context, caller, read_name(request))
    request.query.refuse_hidden(view.transfer.created_at)
    (shown,) = await _show(face, services, caller, [view.transfer])
    return {"transaction": shown}


async def list_pix_both_ways(face: Face, services: Services, request: Asked) -> Shown:
    caller = request.caller
    violations = Violations("transaction")
    asked = read_slice(violations, request)
    parameters = request.query.under(PixSliceQuery, violations)
    kind = parameters.choice("type", (*_DIRECTIONS, "REFUND", "FEE"))
    of_charge, withdrawal = parameters.text("charge", NAME), parameters.text("withdrawal", NAME)
    violations.raise_if_any()
    if withdrawal is None and of_charge is not None:
        charge = await find_named_charge(services, caller, of_charge)
        found, page = await asked.read(lambda span: _find_paying(services, caller, charge, span))
    else:
        # Refunds are listed among refunds, and fees only in the statement.
        search = TransferSearch(end_to_end_id=_NOBODYS) if kind in ("REFUND", "FEE") else TransferSearch()
        if kind in _DIRECTIONS:
            search = TransferSearch(direction=_DIRECTIONS[kind])
        if withdrawal is not None:
            search = TransferSearch(end_to_end_id=withdrawal)
        found, page = await asked.read(lambda span: _search(services, caller, search, span))
    return {"pageInfo": page, "transactions": await _show(face, services, caller, found)}


async def _search(services: Services, caller: Caller, search: TransferSearch, span: Span) -> Page[Transfer]:
    try:
        page = await transfer_usecases.search_transfers(services.context, caller, search, span)
    except SearchTooLarge:
        reason = f"start, end: por type procura-se entre {SEARCHED_MAX} Pix no máximo, e este período tem mais"
        raise NamedRefusal("PERIOD", reason) from None
    return page.with_items([view.transfer for view in page.items])


async def _find_paying(services: Services, caller: Caller, charge: Charge, span: Span) -> Page[Transfer]:
    """Find the payment of a charge, as a list of one or none."""
    try:
        paying = await charge_usecases.read_paying_transfer(services.context, caller, charge.id)
    except errors.NotFound:
        return Page(items=[], total_count=0)
    if not TransferSearch().finds(paying, span):
        return Page(items=[], total_count=0)
    return Page(items=[] if span.position else [paying], total_count=1)


async def _show(face: Face, services: Services, caller: Caller, transfers: Sequence[Transfer]) -> list[Shown]:
    own = await read_own(services, caller)
    paid = {transfer.charge_id for transfer in transfers if transfer.charge_id is not None}
    charges = await charge_usecases.read_charges(services.context, caller, paid)
    base_url = services.base_url + face.prefix
    return [show_cents_pix(transfer, own, charges.get(transfer.charge_id or 0), base_url) for transfer in transfers]


_EARLIEST: Final = datetime.fromisoformat("2000-01-01T00:00:00+00:00")


async def list_accounts(face: Face, services: Services, request: Asked) -> Shown:
    asked = read_only_slice("account", request)
    accounts = [await _read_account(services, request.caller)]
    shown = accounts[asked.skip : asked.skip + asked.limit]
    return {"pageInfo": asked.describe(len(accounts)), "accounts": shown}


async def get_account(face: Face, services: Services, request: Asked) -> Shown:
    account = await _read_account(services, request.caller)
    if read_name(request) != account["accountId"]:
        raise errors.NotFound("accountId: there is no such account")
    return {"account": account}


async def read_statement(face: Face, services: Services, request: Asked) -> Reply:
    asked, context = read_only_slice("statement", request), services.context
    in_cents = face.choose(services, "statement_unit") == "cents"
    begin, end = asked.start or _EARLIEST, asked.end or context.clock.now()
    statement = await statement_usecases.open_statement(context, request.caller, begin, max(begin, end), language="pt")
    extent = statement.extent
    last_number = extent.last_number - asked.skip
    lines = await statement_usecases.read_lines(context, statement, last_number - asked.limit + 1, last_number)
    shown = [
        without_none(
            {
                "id": str(line.id),
                "time": format_milliseconds(line.created_at),
                "description": line.describe("pt"),
                "balance": line.running_balance_cents if in_cents else line.running_balance_cents / 100,
                "value": line.amount_cents if in_cents else line.amount_cents / 100,
                "type": "CREDIT" if line.direction == "IN" else "DEBIT",
                "transactionId": line.return_id or line.end_to_end_id,
            }
        )
        for line in reversed(lines)
    ]
    return Reply(status=200, record=shown)


async def _read_account(services: Services, caller: Caller) -> Shown:
    balance = await ledger_usecases.read_balance(services.context, caller)
    party = await read_own(services, caller)
    return {
        "accountId": f"{caller.holder_id:024x}",
        "isDefault": True,
        "balance": {
            "total": balance.available_cents + balance.reserved_cents,
            "blocked": balance.reserved_cents,
            "available": balance.available_cents,
            "blockedBySecurity": 0,
            "blockedByWithdrawSafety": 0,
        },
        "taxId": party.tax_id,
        "officialName": party.name,
        "tradeName": party.name,
        "branch": party.branch,
        "account": party.account_number,
        "accountName": party.name,
    }


_SLICED: Final = ListTraits(skip="skip")

# Each row keeps two lines, which the formatter would spread over nine.
# fmt: off
_OWN: Final = (
    Row("cobranca.criar", "POST", "/api/v1/charge", "charge.write", "general", charge.create_charge, "read",
        "Only DYNAMIC. A customer's name and taxID are kept; splits, subaccounts, ensureSameTaxID and the like are "
        "ignored. Links of pages and pictures lead nowhere. Bounds of texts are ours."),
    Row("cobranca.consultar", "GET", "/api/v1/charge/{id}", "charge.read", "general", charge.get_named_charge, "read",
        "By correlationID or transactionID. A removed one is EXPIRED: its real status is undocumented."),
    Row("cobranca.listar", "GET", "/api/v1/charge", "charge.read", "general", charge.list_charges, "read",
        "By when it was made, the newest first, which is inferred. Filters customer and subscription are ignored.",
        listed=_SLICED),
    Row("cobranca.prazo", "PATCH", "/api/v1/charge/{id}", "charge.write", "general", charge.change_expiry, "read"),
    Row("cobranca.remover", "DELETE", "/api/v1/charge/{id}", "charge.write", "general", charge.remove_charge, "read"),
    Row("cobranca.estornar", "POST", "/api/v1/charge/{id}/refund", "refund.write", "general", charge.refund_charge, "read"),
    Row("cobranca.estornos", "GET", "/api/v1/charge/{id}/refund", "refund.read", "general", charge.list_charge_refunds, "read"),
    Row("estorno.pedir", "POST", "/api/v1/refund", "refund.write", "general", charge.refund_pix, "read"),
    Row("estorno.consultar", "GET", "/api/v1/refund/{id}", "refund.read", "general", charge.get_named_refund, "read"),
    Row("estorno.listar", "GET", "/api/v1/refund", "refund.read", "general", charge.list_refunds, "read",
        "Returns of sends are among them.",
        listed=_SLICED),
    Row("transacao.consultar", "GET", "/api/v1/transaction/{id}", "transfer.read", "general", get_pix_either_way,
        "read", "By end-to-end id only."),
    Row("transacao.listar", "GET", "/api/v1/transaction", "transfer.read", "general", list_pix_both_ways, "read",
        "Refunds are at /refund, and fees in the statement alone. By when it was made. Filters pixQrCode and "
        "hasWebhook are ignored. By type at most 10,000 are searched: where there are more, start and end must be nearer.",
        listed=_SLICED),
    Row("webhook.criar", "POST", "/api/v1/webhook", "webhook.write", "general", add_event_webhook, "read",
        "The answer has hmacSecret besides, which their dashboard shows. Events that never happen here are refused. An "
        "answer is waited for as long as our own webhooks do, and not 100 s; it is listed among those."),
    Row("webhook.listar", "GET", "/api/v1/webhook", "webhook.read", "general", list_event_webhooks, "read"),
    Row("webhook.remover", "DELETE", "/api/v1/webhook/{id}", "webhook.write", "general", remove_event_webhook, "read"),
    Row("webhook.chaves", "GET", "/api/v1/webhook/public-keys", None, "general", list_public_keys, "read",
        "The key is ours: a library with Woovi's key built in refuses our callbacks."),
    Row("pagamento.criar", "POST", "/api/v1/payment", "transfer.write", "payment", send.prepare_send, "read",
        "metadata, sourceAccountId and pixKeyEndToEndId are ignored. No correlationID is approve, which is a path. "
        "A psp is an ISPB. That an unknown key is refused already here is inferred."),
    Row("pagamento.aprovar", "POST", "/api/v1/payment/approve", "transfer.write", "payment", send.approve_send, "read",
        "A limit that is exceeded, or a payee that is gone, is refused at once, and it can be approved later."),
    Row("pagamento.consultar", "GET", "/api/v1/payment/{id}", "transfer.read", "payment", send.get_send, "read",
        "By correlationID only."),
    Row("pagamento.listar", "GET", "/api/v1/payment", "transfer.read", "payment", send.list_sends, "read",
        listed=_SLICED),
    Row("contas.listar", "GET", "/api/v1/account", "ledger.read", "general", list_accounts, "read",
        "There is one account; money reserved for sends is blocked.",
        listed=_SLICED),
    Row("conta.consultar", "GET", "/api/v1/account/{accountId}", "ledger.read", "general", get_account, "read"),
    Row("extrato", "GET", "/api/v1/statement", "ledger.read", "general", read_statement, "read",
        "Its order, its descriptions and the contents of transactionId are inferred.",
        listed=_SLICED),
    Row("chave.conferir", "GET", "/api/v1/pix-keys/{pixKey}/check", "transfer.read", "key", check_key_in_path, "read",
        "A look-up costs tokens and nothing else, and is never switched off."),
    Row("chave.conferir_no_corpo", "POST", "/api/v1/pix-keys/check", "transfer.read", "key_in_body",
        check_key_in_body, "read", "As above."),
    Row("chaves.fichas", "GET", "/api/v1/pix-keys/tokens", "transfer.read", "key", read_tokens, "read",
        "Each process counts its own; the bucket is the account's."),
)
_OF_TESTS: Final = (
    Row("teste.pagar", "GET", "/openpix/testing", "pix.write", "general", charge.pay_in_test, "read",
        "Only below `/faces/woovi+homologation`. Its answer is inferred; static codes are not paid."),
)
# fmt: on


def list_woovi_rows(face: Face) -> list[Row]:
    return [*_OWN, *_OF_TESTS] if face.is_homologation else [*_OWN]
