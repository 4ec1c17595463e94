"""Sending as Woovi has it: a payment is created, which moves nothing, and approved, by the same name."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field, structs

from pixconnect.api.faces.frame import Face
from pixconnect.api.faces.refusals import NamedRefusal
from pixconnect.api.faces.woovi.paging import NAME, ShownPage, read_name, read_slice
from pixconnect.api.faces.woovi.send_body import PagamentoAprovado, SendRequest, read_send
from pixconnect.api.frame.operation import Reply
from pixconnect.api.frame.services import Services
from pixconnect.api.standard.frame import Asked
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.frame import errors
from pixconnect.domain.identity.access import Caller
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.pix_key import parse_pix_key
from pixconnect.domain.money.prepared_transfer import PreparedTransfer
from pixconnect.usecases.money import payee as payee_usecases
from pixconnect.usecases.money import prepared_transfer as prepared_usecases
from pixconnect.usecases.money.prepared_transfer import Approval
from pixconnect.usecases.standard.cents_records import (
    DestinoEmCentavos,
    MovimentoEmCentavos,
    PagamentoEmCentavos,
    show_destination,
    show_movement,
    show_order,
)


class PagamentoLido(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Um pagamento como está."""

    send: PagamentoEmCentavos = field(name="payment")
    movement: MovimentoEmCentavos | None = field(default=None, name="transaction")
    destination: DestinoEmCentavos | None = None


class PagamentosListados(Struct, frozen=True, kw_only=True, rename="camel"):
    """Uma página de pagamentos."""

    page: ShownPage = field(name="pageInfo")
    status: str = "OK"
    sends: Sequence[PagamentoLido] = field(name="payments")


async def prepare_send(face: Face, services: Services, request: Asked) -> Reply:
    """Cria um pagamento, que espera uma aprovação ou já a tem."""
    violations = Violations("payment")
    asked = read_send(violations, request.body.require("payment"), face.choose(services, "psp"))
    violations.raise_if_any()
    context, caller = services.context, request.caller
    amount_cents = asked.amount_cents
    if amount_cents is None:
        amount_cents = await payee_usecases.read_code_amount(context, caller, asked.br_code or "")
    prepared = _prepare(face, services, caller, asked, amount_cents)
    payee = await prepared_usecases.prepare_transfer(context, caller, prepared)
    if not asked.auto_approve:
        destination = show_destination(payee) if asked.br_code is not None else None
        waiting = PagamentoLido(
            send=show_order(prepared, face.profile.sent.statuses["WAITING"]), destination=destination
        )
        return Reply(status=200, record=waiting)
    try:
        approval = await prepared_usecases.approve_transfer(context, caller, asked.name, is_new=False)
    except errors.InsufficientFunds:
        raise NamedRefusal("FUNDS_AT_ONCE", "value: é maior que o saldo disponível") from None
    shown = await _show_approved(face, services, caller, approval)
    if face.choose(services, "auto_approve_answer") == "payment_only":
        shown = PagamentoLido(send=shown.send)
    return Reply(status=200, record=shown)


async def approve_send(face: Face, services: Services, request: Asked) -> Reply:
    """Aprova um pagamento criado antes: só agora o dinheiro sai."""
    violations = Violations("payment")
    body = Members(violations, PagamentoAprovado, request.body.require("payment"), "")
    name = body.text("correlationID", pattern=NAME)
    violations.raise_if_any()
    is_new = face.choose(services, "approve_again") == "refused"
    try:
        approval = await prepared_usecases.approve_transfer(services.context, request.caller, name or "", is_new=is_new)
    except errors.ExternalIdConflict:
        raise NamedRefusal("APPROVED_BEFORE", "correlationID: o pagamento já foi aprovado") from None
    return Reply(status=200, record=await _show_approved(face, services, request.caller, approval))


async def get_send(face: Face, services: Services, request: Asked) -> Reply:
    """Consulta um pagamento pelo nome que lhe foi dado."""
    try:
        found = await prepared_usecases.find_prepared(services.context, request.caller, read_name(request))
    except errors.NotFound:
        if face.choose(services, "unknown_payment") == "absent":
            raise NamedRefusal("ABSENT", "não existe este pagamento") from None
        raise
    request.query.refuse_hidden(found.prepared.created_at)
    return Reply(status=200, record=_show(face, found, await _read_own(services, request.caller)))


async def list_sends(face: Face, services: Services, request: Asked) -> Reply:
    """Lista pagamentos, do mais novo ao mais antigo, por quando foram criados."""
    violations = Violations("payment")
    asked = read_slice(violations, request)
    violations.raise_if_any()
    context, caller = services.context, request.caller
    found, page = await asked.read(lambda span: prepared_usecases.list_prepared(context, caller, span))
    own = await _read_own(services, caller)
    record = PagamentosListados(page=page, sends=[_show(face, each, own) for each in found])
    return Reply(status=200, record=record)


def _prepare(face: Face, services: Services, caller: Caller, asked: SendRequest, amount_cents: int) -> PreparedTransfer:
    prepared = PreparedTransfer(
        holder_id=caller.holder_id,
        external_id=asked.name,
        initiation_type="MANUAL" if asked.account else "QRCODE" if asked.br_code else "KEY",
        amount_cents=amount_cents,
        key=asked.key and asked.key.key,
        key_type=asked.key and asked.key.key_type,
        br_code=asked.br_code,
        counterparty=asked.account,
        payer_message=asked.comment,
        created_at=services.context.clock.now(),
    )
    rules = face.profile.homologation
    if not face.is_homologation or asked.account is None or asked.account.account_number not in rules.rejected_accounts:
        return prepared
    # The sandbox has keys that are rejected, which are paid in the account's place.
    code, *told_as = rules.rejected_accounts[asked.account.account_number]
    key = parse_pix_key(rules.rejected_key.format(code=code.lower()))
    return structs.replace(prepared, key=key.key, key_type=key.key_type, rejected_as=told_as[0] if told_as else None)


async def _show_approved(face: Face, services: Services, caller: Caller, approval: Approval) -> PagamentoLido:
    shown = _show(face, approval, await _read_own(services, caller))
    # Whatever has become of it already: the outcome is told later.
    return structs.replace(shown, send=structs.replace(shown.send, status=face.profile.sent.statuses["TAKEN"]))


def _show(face: Face, found: Approval, own: Party) -> PagamentoLido:
    words, transfer, prepared = face.profile.sent, found.transfer, found.prepared
    if transfer is None:
        return PagamentoLido(send=show_order(prepared, words.statuses["WAITING"]))
    return PagamentoLido(
        send=show_order(prepared, words.say(transfer.status, transfer.outcome_code)),
        movement=show_movement(transfer, own),
        destination=show_destination(prepared.counterparty or transfer.counterparty),
    )


async def _read_own(services: Services, caller: Caller) -> Party:
    return (await services.context.directory.read_account(caller.holder_id)).party
