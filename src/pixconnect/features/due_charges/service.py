"""Violations of the terms of a charge with a due date, in the central bank's form; and the parts of its payments."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.features.due_charges.rules.day_amount import (
    PaidAmount,
    RefusedTerm,
    ShownAmount,
    list_refused_terms,
    show_amount,
)
from pixconnect.kernel.flows.charge import PaidParts
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.charge_contents import ChargeContents, DayAmount, DueTerms
from pixconnect.kernel.rules.location import WITH_DUE_DATE
from pixconnect.kernel.rules.money import format_reais
from pixconnect.kernel.rules.transfer import Transfer
from pixconnect.kernel.tables import lookup
from pixconnect.kernel.tables.fact import Fact
from pixconnect.kernel.tables.table import Part, Table
from pixconnect.kernel.writing.unit_of_work import UnitOfWork
from pixconnect.platform.base.clock import to_day
from pixconnect.platform.base.errors import Violation


def judge_terms(contents: ChargeContents, before: ChargeContents | None, now: datetime) -> Sequence[Violation]:
    """List all violations of the terms of a charge with a due date; none for any other charge.

    Args:
        before: Its present terms; an unchanged due date may have passed.
    """
    terms = contents.due
    if terms is None:
        return ()
    keeps_date = before is not None and before.due is not None and before.due.due_on == terms.due_on
    today = None if keeps_date else to_day(now)
    rows: list[Violation] = []
    for refused in list_refused_terms(terms, contents.amount_cents, today=today):
        member, value = _find_member(terms, refused)
        rows.append(Violation(property=f"{WITH_DUE_DATE}.{member}", reason=refused.reason.portuguese, value=value))
    return rows


_ORDER: Final = ("calendario", "chave", "loc", "valor", "status")


def in_standard_order(rows: Sequence[Violation]) -> Sequence[Violation]:
    """Sort violations as the standard lists them; others come last."""
    return sorted(rows, key=_find_place)


def _find_place(row: Violation) -> int:
    member = row.property.split(".")[1:2]
    return _ORDER.index(member[0]) if member and member[0] in _ORDER else len(_ORDER)


def _find_member(terms: DueTerms, refused: RefusedTerm) -> tuple[str, str | None]:
    """Return the standard's name of the refused member, and its value."""
    match refused.member:
        case "due_on":
            return "calendario.dataDeVencimento", terms.due_on.isoformat()
        case "valid_days":
            return "calendario.validadeAposVencimento", str(terms.valid_days)
        case "rebate.value":
            return "valor.abatimento.valorPerc", terms.rebate and format_reais(terms.rebate.value)
        case "discount.value":
            value = terms.discount and terms.discount.value
            return "valor.desconto.valorPerc", None if value is None else format_reais(value)
        case "discount.dated":
            if refused.place is None or terms.discount is None:
                return "valor.desconto.descontoDataFixa", None
            dated, member = terms.discount.dated[refused.place], f"valor.desconto.descontoDataFixa[{refused.place}]"
            if refused.reason.is_about_date:
                return f"{member}.data", dated.until.isoformat()
            return f"{member}.valorPerc", format_reais(dated.value)


PAID_AMOUNT: Final = Table(
    "paid_amount",
    PaidAmount,
    """
    transfer_id bigint, holder_id bigint, charge_id bigint, amount_cents bigint, original_cents bigint, fine_cents bigint,
    interest_cents bigint, rebate_cents bigint, discount_cents bigint
    """,
    key=("transfer_id", "holder_id"),
)

INSERT_PAID_AMOUNT: Final = Part[PaidAmount](
    name="paid_amount_row",
    sql=f"insert into paid_amount ({PAID_AMOUNT.names}) {PAID_AMOUNT.rows}",
    arguments=PAID_AMOUNT.arrays,
)
PAID_AMOUNTS: Final = Fact(rank=50, inserts=(INSERT_PAID_AMOUNT,), key=None)

find_paid_amounts: Final = lookup.by_pairs(PAID_AMOUNT, "transfer_id")


def keep_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, parts: DayAmount) -> None:
    paid = PaidAmount(
        transfer_id=transfer.id,
        holder_id=transfer.holder_id,
        charge_id=charge.id,
        amount_cents=parts.total_cents,
        **structs.asdict(parts),
    )
    work.put(PAID_AMOUNTS, paid)


PAID_PARTS: Final = (PaidParts(keep_parts),)


def show_due(charge: Charge, now: datetime) -> ShownAmount | None:
    """Today's amount of one with a due date, and its parts; ``None`` for others, and for one that can no longer be paid."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))
