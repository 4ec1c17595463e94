"""Violations of the terms of a charge with a due date, in the central bank's form; and the parts of its payments."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import structs

from pixconnect.features.due_charges.rules import day_amount
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

_PLACES: Final[Mapping[day_amount.TermMember, str]] = dict[day_amount.TermMember, str](
    (
        ("due_on", "calendario.dataDeVencimento"),
        ("valid_days", "calendario.validadeAposVencimento"),
        ("rebate.value", "valor.abatimento.valorPerc"),
        ("discount.value", "valor.desconto.valorPerc"),
        ("discount.dated", "valor.desconto.descontoDataFixa"),
    )
)
_REASONS: Final[Mapping[day_amount.TermReason, str]] = dict[day_amount.TermReason, str](
    (
        ("before_today", "não pode ser anterior a hoje, em São Paulo"),
        ("too_late", f"não pode ser posterior a {day_amount.LAST_DAY_MAX.isoformat()}"),
        ("negative", "não pode ser menor que zero"),
        ("not_below_original", "deve ser menor que valor.original"),
        ("not_below_all", "deve ser menor que 100.00"),
        ("missing", "é obrigatório com esta modalidade"),
        ("not_with_dates", "não pode ser usado com as modalidades 1 e 2"),
        ("not_with_days", "não pode ser usado com as modalidades 3 a 6"),
        ("after_due_date", "não pode ser posterior a calendario.dataDeVencimento"),
        ("date_again", "a data se repete"),
    )
)


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
    return [_show(terms, refused) for refused in day_amount.list_refused_terms(terms, contents.amount_cents, today=today)]


_ORDER: Final = ("calendario", "chave", "loc", "valor", "status")


def in_standard_order(rows: Sequence[Violation]) -> Sequence[Violation]:
    """Sort violations as the standard lists them; others come last."""
    return sorted(rows, key=_find_place)


def _find_place(row: Violation) -> int:
    member = row.property.split(".")[1:2]
    return _ORDER.index(member[0]) if member and member[0] in _ORDER else len(_ORDER)


def _show(terms: DueTerms, refused: day_amount.RefusedTerm) -> Violation:
    place = _PLACES[refused.member]
    if refused.place is not None:
        is_of_date = refused.reason in ("after_due_date", "date_again")
        place += f"[{refused.place}].{'data' if is_of_date else 'valorPerc'}"
    return Violation(property=f"{WITH_DUE_DATE}.{place}", reason=_REASONS[refused.reason], value=_find_value(terms, refused))


def _find_value(terms: DueTerms, refused: day_amount.RefusedTerm) -> str | None:
    match refused.member:
        case "due_on":
            return terms.due_on.isoformat()
        case "valid_days":
            return str(terms.valid_days)
        case "rebate.value":
            return terms.rebate and format_reais(terms.rebate.value)
        case "discount.value":
            value = terms.discount and terms.discount.value
            return None if value is None else format_reais(value)
        case "discount.dated":
            if refused.place is None or terms.discount is None:
                return None
            dated = terms.discount.dated[refused.place]
            is_of_date = refused.reason in ("after_due_date", "date_again")
            return dated.until.isoformat() if is_of_date else format_reais(dated.value)


PAID_AMOUNT: Final = Table(
    "paid_amount",
    day_amount.PaidAmount,
    """
    transfer_id bigint, holder_id bigint, charge_id bigint, amount_cents bigint, original_cents bigint, fine_cents bigint,
    interest_cents bigint, rebate_cents bigint, discount_cents bigint
    """,
    key=("transfer_id", "holder_id"),
)

INSERT_PAID_AMOUNT: Final = Part[day_amount.PaidAmount](
    name="paid_amount_row",
    sql=f"insert into paid_amount ({PAID_AMOUNT.names}) {PAID_AMOUNT.rows}",
    arguments=PAID_AMOUNT.arrays,
)
PAID_AMOUNTS: Final = Fact(rank=50, inserts=(INSERT_PAID_AMOUNT,), key=None)

find_paid_amounts: Final = lookup.by_pairs(PAID_AMOUNT, "transfer_id")


def keep_parts(work: UnitOfWork, transfer: Transfer, charge: Charge, parts: DayAmount) -> None:
    paid = day_amount.PaidAmount(
        transfer_id=transfer.id,
        holder_id=transfer.holder_id,
        charge_id=charge.id,
        amount_cents=parts.total_cents,
        **structs.asdict(parts),
    )
    work.put(PAID_AMOUNTS, paid)


PAID_PARTS: Final = (PaidParts(keep_parts),)


def show_due(charge: Charge, now: datetime) -> day_amount.ShownAmount | None:
    """Today's amount of one with a due date, and its parts; ``None`` for others, and for one that can no longer be paid."""
    if charge.contents is None or charge.contents.due is None or charge.status != "PENDING" or now >= charge.expires_at:
        return None
    return day_amount.show_amount(charge.contents.due, charge.contents.amount_cents, to_day(now))
