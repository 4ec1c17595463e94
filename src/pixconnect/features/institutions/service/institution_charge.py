"""Charges at institutions through the standard API: opened, revised, removed and shown in their state there.

Conflicts with the present state are answered before the call to the institution; its refusals have the same form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from pixconnect.features.due_charges.service import judge_terms
from pixconnect.features.institutions.rules.institution import CertainRefusal
from pixconnect.features.institutions.service.charge_change import change_at_institution
from pixconnect.features.institutions.service.charge_opening import NewOpening, open_at_institution
from pixconnect.features.institutions.service.pending_call import RefusedByInstitution
from pixconnect.features.institutions.tables import pending_call as call_store
from pixconnect.features.pix_api.service.charge_write import REMOVAL, StandardCharge
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules import charge as charge_rules
from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import ChargeContents, ContentsChange, are_equivalent, change_contents
from pixconnect.kernel.rules.location import AT_ONCE, WITH_DUE_DATE, LocationKind, location_kind_of
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.platform.base import errors
from pixconnect.platform.base.errors import Violated, Violation

_MEMBERS: Final = ("chave", "valor", "devedor", "calendario", "solicitacaoPagador", "infoAdicionais", "status")
"""Members of a charge that an institution's refusal may name, or one below them."""
_PLACE_MAX: Final = 80
_NO_DUE: Final = "a instituição desta conta não abre cobranças com vencimento nos termos da API do Banco Central"


class InstitutionViolated(Violated):
    """An institution's refusal, or one known in advance, in this API's terms; ``refusal`` has its words."""

    def __init__(self, entity: LocationKind, row: Violation, refusal: CertainRefusal) -> None:
        super().__init__(entity, [row])
        self.refusal = refusal


class NewContents(Struct, frozen=True, kw_only=True):
    txid: str | None  # if ``None``, the service generates one
    contents: ChargeContents
    location_id: int | None
    is_new: bool  # refuse an existing one, with any contents
    violations: Sequence[Violation] = ()  # raised unless nothing is to be changed

    @property
    def kind(self) -> LocationKind:
        return AT_ONCE if self.contents.due is None else WITH_DUE_DATE


async def put_at_institution(context: Context, caller: Caller, institution_id: int, put: NewContents) -> StandardCharge | None:
    """Open a charge at the holder's account, or revise it there; ``None`` if an earlier charge of the holder has the txid."""
    charge = None if put.txid is None else await charge_store.find_by_txid(context.pool, caller.holder_id, put.txid)
    if charge is not None and charge.institution_id is None:
        return None if charge.holder_id == caller.holder_id else await _repeat_former(context, charge, put)
    if charge is not None and location_kind_of(charge) != put.kind:
        reason = "este txid já é de uma cobrança de outro tipo"
        raise Violated(put.kind, [Violation(property="txid", reason=reason, value=put.txid)])
    if charge is not None and put.is_new:
        raise errors.ExternalIdConflict("txid: there is a charge of this txid")
    if charge is not None and await _has_contents_already(context, charge, put.contents):
        return StandardCharge.of(charge, None)
    before = None if charge is None else charge_rules.read_contents(charge)
    violations = [
        *judge_terms(put.contents, before, context.clock.now()),
        *await judge_key(context, caller, put.contents.key, put.kind),
        *put.violations,
        *_judge(put.contents, put.location_id, put.kind),
        *(() if before is None else _judge_left_out(before, put.contents, put.kind)),
    ]
    # An earlier request may have opened it there: a due date that has passed since does not refuse a replay.
    wanted = NewOpening(contents=put.contents, asked_by=caller, txid=put.txid)
    if violations and (charge is not None or not await _is_being_opened(context, caller, wanted)):
        raise Violated(put.kind, violations)
    try:
        if charge is not None:
            return StandardCharge.of(await change_at_institution(context, caller, charge, contents=put.contents), None)
        return StandardCharge.of(await open_at_institution(context, caller, wanted, institution_id), None)
    except RefusedByInstitution as refused:
        raise _explain(refused.refusal, put.kind) from None
    except errors.ExternalIdConflict as conflict:
        if put.is_new:
            raise
        reason = "este txid já é de outra cobrança, ou o external_id de outra"
        raise Violated(put.kind, [Violation(property="txid", reason=reason, value=put.txid)]) from conflict


async def _repeat_former(context: Context, charge: Charge, put: NewContents) -> StandardCharge:
    """Return a predecessor's charge without an institution: it is paid as it is, and changes no more."""
    if not put.is_new and await _has_contents_already(context, charge, put.contents):
        return StandardCharge.of(charge, None)
    raise errors.ExternalIdConflict("txid: a charge of the former account has it")


async def patch_at_institution(
    context: Context,
    caller: Caller,
    txid: str,
    change: ContentsChange,
    *,
    kind: LocationKind,
    location_id: int | None,
    removes: bool,
) -> StandardCharge | None:
    """Revise a charge at its institution, or remove it there; ``None`` if it is not at one.

    Raises:
        NotFound: The charge does not exist.
        Violated: The conflicts, and the institution's refusals.
    """
    charge = await charge_store.find_by_txid(context.pool, caller.holder_id, txid)
    if charge is None or location_kind_of(charge) != kind:
        raise errors.NotFound("txid: there is no such charge")
    if charge.institution_id is None:
        return None
    if removes:
        return await _remove(context, caller, charge, kind)
    before = charge_rules.read_contents(charge)
    contents = change_contents(before, change)
    violations = [
        *judge_terms(contents, before, context.clock.now()),
        *await judge_key(context, caller, change.key, kind),
        *_judge(contents, location_id, kind),
    ]
    if violations:
        raise Violated(kind, violations)
    if await _has_contents_already(context, charge, contents):
        return StandardCharge.of(charge, None)
    try:
        return StandardCharge.of(await change_at_institution(context, caller, charge, contents=contents), None)
    except RefusedByInstitution as refused:
        raise _explain(refused.refusal, kind) from None


async def judge_key(context: Context, caller: Caller, key: str | None, kind: LocationKind = AT_ONCE) -> list[Violation]:
    if key is None or await context.directory.find_owner(key) == caller.holder_id:
        return []
    reason = "a chave não pertence a este usuário recebedor"
    return [Violation(property=f"{kind}.chave", reason=reason, value=key)]


async def _remove(context: Context, caller: Caller, charge: Charge, kind: LocationKind) -> StandardCharge:
    removed = await _find_removed(context, caller, charge)
    if removed is None:
        try:
            removed = await change_at_institution(context, caller, charge, removal="REMOVED_BY_RECEIVER")
        except RefusedByInstitution as refused:
            # A worker may have ended the same one since we looked.
            removed = await _find_removed(context, caller, charge)
            if removed is None:
                raise _explain(refused.refusal, kind, REMOVAL) from None
    return StandardCharge.of(removed, None)


async def _find_removed(context: Context, caller: Caller, charge: Charge) -> Charge | None:
    """Find a charge that this caller's request has removed: a replay gets its result."""
    # It is unknown whether an answer arrived: its process may have been killed before. Nothing follows a removal.
    last = await call_store.find_last(context.pool, charge.id, charge.holder_id)
    if last is None or (last.kind, last.state, last.removal) != ("remove", "done", "REMOVED_BY_RECEIVER"):
        return None
    if last.asked_by is None or last.asked_by.client_id != caller.client_id:
        return None
    return await charge_store.find_by_id(context.pool, charge.holder_id, charge.id)


async def _is_being_opened(context: Context, caller: Caller, wanted: NewOpening) -> bool:
    found = None if wanted.txid is None else await call_store.find_opening(context.pool, caller.holder_id, wanted.txid)
    return found is not None and wanted.was_made_as(found)


async def _has_contents_already(context: Context, charge: Charge, contents: ChargeContents) -> bool:
    # While its contents at the institution are unknown, they count as different.
    is_known = await call_store.find_under_way(context.pool, charge.id, charge.holder_id) is None
    return is_known and are_equivalent(contents, charge_rules.read_contents(charge))


def _judge(contents: ChargeContents, location_id: int | None, kind: LocationKind) -> list[Violation]:
    """Check for features of the API that charges at institutions lack."""
    found: list[Violation] = []
    if contents.may_change_amount:
        reason = "não é oferecido nas cobranças desta conta, que são abertas na instituição"
        found.append(Violation(property=f"{kind}.valor.modalidadeAlteracao", reason=reason, value="1"))
    elif contents.amount_cents == 0:
        reason = "deve ser maior que 0.00 nas cobranças desta conta"
        found.append(Violation(property=f"{kind}.valor.original", reason=reason, value="0.00"))
    if location_id is not None:
        reason = "as cobranças desta conta são servidas pela instituição: loc só pode ser lida"
        found.append(Violation(property=f"{kind}.loc.id", reason=reason, value=str(location_id)))
    return found


def _judge_left_out(before: ChargeContents, after: ChargeContents, kind: LocationKind) -> Sequence[Violation]:
    """Check for members that a put would remove: a revision at the institution removes nothing."""
    left_out = {
        "devedor": before.payer is not None and after.payer is None,
        "solicitacaoPagador": before.question is not None and after.question is None,
        "infoAdicionais": bool(before.lines) and not after.lines,
    }
    was, will_be = before.due, after.due
    if was is not None and will_be is not None:
        left_out |= {
            "valor.multa": was.fine is not None and will_be.fine is None,
            "valor.juros": was.interest is not None and will_be.interest is None,
            "valor.abatimento": was.rebate is not None and will_be.rebate is None,
            "valor.desconto": was.discount is not None and will_be.discount is None,
        }
    reason = "não pode ser retirado de uma cobrança que está aberta na instituição"
    return [Violation(property=f"{kind}.{name}", reason=reason) for name, is_so in left_out.items() if is_so]


def _explain(refusal: CertainRefusal, kind: LocationKind, sent: str | None = None) -> InstitutionViolated:
    named = (refusal.member or "").removeprefix(f"{kind}.")
    is_ours = named.startswith(_MEMBERS) and len(named) <= _PLACE_MAX
    place = f"{kind}.{named}" if is_ours else "txid" if refusal.code == "txid" else kind
    reason = _NO_DUE if refusal.code == "due" else f"a cobrança não é aceita na instituição: {refusal.reason}"
    return InstitutionViolated(kind, Violation(property=place, reason=reason, value=sent), refusal)
