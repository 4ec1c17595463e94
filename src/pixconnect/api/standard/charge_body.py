"""Bodies of immediate charges, and what others have like them: read member by member.

So one answer names everything that is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from pixconnect.api.standard.charge_records import CobRevisada, CobSolicitada
from pixconnect.api.standard.violations import Members, Violations
from pixconnect.domain.money import pix_key
from pixconnect.domain.money.charge_contents import LIFETIME_S, ChargeContents, ContentsChange, Line, Payer
from pixconnect.domain.standard.location import AT_ONCE as ENTITY


class ChargePut(Struct, frozen=True):
    contents: ChargeContents
    location_id: int | None


class ChargePatch(Struct, frozen=True):
    change: ContentsChange
    location_id: int | None
    removes: bool


def read_put(members: Mapping[str, object]) -> ChargePut:
    """All that a charge is to say; raises ``Violated``."""
    violations = Violations(ENTITY)
    body = Members(violations, CobSolicitada, members)
    change = _read_change(body, is_whole=True)
    location_id = read_wanted_location(body)
    violations.raise_if_any()
    contents = ChargeContents(
        lifetime_s=change.lifetime_s or LIFETIME_S,
        amount_cents=change.amount_cents or 0,
        may_change_amount=change.may_change_amount,
        key=change.key or "",
        payer=change.payer,
        question=change.question,
        lines=change.lines or (),
    )
    return ChargePut(contents, location_id)


def read_patch(members: Mapping[str, object]) -> ChargePatch:
    """What a charge is to say instead; raises ``Violated``."""
    violations = Violations(ENTITY)
    body = Members(violations, CobRevisada, members, refuses_null=True)
    change = _read_change(body, is_whole=False)
    location_id = read_wanted_location(body)
    removes = read_removing(body, CobRevisada)
    violations.raise_if_any()
    return ChargePatch(change, location_id, removes)


def _read_change(body: Members, *, is_whole: bool) -> ContentsChange:
    # In the order in which the standard lists what breaks its rules.
    calendar = body.object("calendario")
    lifetime_s = None if calendar is None else calendar.integer("expiracao")
    amount_cents, may_change_amount = _read_value(body, is_whole=is_whole)
    payer = _read_payer(body)
    key = read_own_key(body)
    question = body.text("solicitacaoPagador")
    lines = read_added_lines(body)
    return ContentsChange(
        lifetime_s=lifetime_s,
        amount_cents=amount_cents,
        may_change_amount=may_change_amount,
        key=key,
        payer=payer,
        # An empty one says nothing, and a patch removes nothing.
        question=question or None,
        lines=lines or None,
    )


def _read_value(body: Members, *, is_whole: bool) -> tuple[int | None, bool | None]:
    value = body.object("valor")
    if value is None:
        return None, None
    amount_cents = value.amount("original")
    modality = value.integer("modalidadeAlteracao")
    if value.has("retirada"):
        value.refuse("retirada", "Pix Saque e Pix Troco não são oferecidos")
    # Whether a patch may set zero depends on the charge's present state.
    elif amount_cents == 0 and modality != 1 and is_whole:
        value.refuse("original", "só pode ser 0.00 com modalidadeAlteracao 1")
    return amount_cents, None if modality is None else bool(modality)


def read_removing(body: Members, record: type[Struct]) -> bool:
    """Whether a patch removes the charge."""
    removes = body.choice("status") is not None
    others = (each.encode_name for each in structs.fields(record) if each.name != "status")
    # A removed charge has nothing left to change, so a caller who changes it in the same request has made a mistake.
    if removes and any(map(body.has, others)):
        body.refuse("status", "a cobrança não pode ser removida junto com outras alterações")
    return removes


def _read_payer(body: Members) -> Payer | None:
    """Of whom it asks; a charge with a due date says more of the same person."""
    debtor = body.object("devedor")
    return None if debtor is None else read_person(body, debtor)


def read_person(body: Members, debtor: Members) -> Payer | None:
    """The person or company that a member ``devedor`` names."""
    cpf, cnpj = debtor.tax_id("cpf"), debtor.tax_id("cnpj")
    if debtor.has("cpf") and debtor.has("cnpj"):
        debtor.refuse("cnpj", "não pode ser usado junto com cpf")
    elif not debtor.has("cpf") and not debtor.has("cnpj"):
        body.refuse("devedor", "deve ter cpf ou cnpj")
    name = debtor.text("nome")
    found = cpf or cnpj
    return None if name is None or found is None else Payer(name=name, tax_id=found)


def read_own_key(body: Members) -> str | None:
    # With the marks that people write, which its normal form has not.
    found = body.pix_key("chave", length_max=pix_key.SENT_LENGTH_MAX)
    return None if found is None else found.key


def read_added_lines(body: Members) -> tuple[Line, ...] | None:
    sent = body.objects("infoAdicionais")
    if sent is None:
        return None
    lines: list[Line] = []
    for line in sent:
        name, value = line.text("nome"), line.text("valor")
        if name is not None and value is not None:
            lines.append(Line(name=name, value=value))
    return tuple(lines)


def read_wanted_location(body: Members) -> int | None:
    location = body.object("loc")
    return None if location is None else location.integer("id")
