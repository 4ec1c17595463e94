"""Which lines move money between an account and its own investment, and how much of it."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.sweep import is_own_investment, plan_investments

DAY = date(2026, 7, 1)


def line(item_id: str, cents: int, text: str = "APLICACAO AUTOMATICA", day: int = 1, **changes: Any) -> InstitutionItem:
    item = InstitutionItem(
        item_id=item_id,
        day=date(2026, 7, day),
        settled_at=None,
        direction="IN" if cents > 0 else "OUT",
        amount_cents=abs(cents),
        kind="other",
        text=text,
    )
    return structs.replace(item, **changes)


@pytest.mark.parametrize(
    "text",
    ["APLICACAO CDB", "Aplicação: CDB", "APLIC AUT", "APL APLIC AUT MAIS", "RES APLIC AUT MAIS", "RESGATE CONTAMAX", "RESG AUT",
     "DEB.APLICAÇÃO RDC", "CRED. RESGATE", "BB RENDE FACIL", "Rende Fácil"],
)  # fmt: skip
def test_a_line_whose_own_words_say_so_is_an_own_investment(text: str) -> None:
    assert is_own_investment(line("A", -100, text))
    for other in (
        dict(kind="pix"), dict(kind="fee"), dict(end_to_end_id="E1"), dict(tax_id="52998224725"),
        dict(counterparty="XP INVESTIMENTOS"),
    ):  # fmt: skip
        assert not is_own_investment(line("A", -100, text, **other))


@pytest.mark.parametrize(
    "text",
    ["REND PAGO APLIC AUT MAIS", "RENTAB.INVEST FACIL", "IRRF APLICACAO", "IOF RESGATE", "APLICATIVO DE CARONA",
     "PAGTO APLICACAO", "RESERVA HOTEL", "SALDO APLICACAO", "APLAUSO"],
)  # fmt: skip
def test_yield_taxes_and_other_words_are_none(text: str) -> None:
    assert not is_own_investment(line("A", -100, text))


@pytest.mark.parametrize(
    ("lines", "position", "planned"),
    [
        ([("A", -100)], 0, dict(A=100)),
        ([("A", -100), ("R", 100)], 0, dict(A=100, R=100)),
        # In the morning the investment returns with its yield; in the evening all is invested again.
        ([("A", -120), ("R", 105)], 100, dict(R=100, A=120)),
        ([("R", 60)], 100, dict(R=60)),
        ([("R", 125)], 100, dict(R=100)),
        # More than the yield: the rest was invested before the books began.
        ([("R", 126)], 100, dict(R=100)),
        ([("R", 100)], 0, dict(R=0)),
        ([("R", 100), ("S", 7)], 100, dict(R=100, S=0)),
    ],
)
def test_how_much_of_each_line_moves_the_position(
    lines: list[tuple[str, int]], position: int, planned: dict[str, int | None]
) -> None:
    items = [line(name, cents) for name, cents in lines]
    assert plan_investments(items, position, lambda day: day == DAY) == planned


def test_a_redemption_waits_while_its_application_may_be_missing() -> None:
    assert plan_investments([line("R", 100)], 0, lambda _: False) == dict(R=None)
    assert plan_investments([line("R", 126)], 100, lambda _: False) == dict(R=None)
    days = [line("R", 101, day=2), line("A", -100, day=1), line("S", 50, day=3)]
    assert plan_investments(days, 0, lambda _: False) == dict(A=100, R=100, S=None)


def test_what_a_line_yielded_once_stays_its_yield() -> None:
    lines = [line("A", -3, day=1), line("R", 105, day=2), line("S", 10, day=1)]
    planned = plan_investments(lines, 100, lambda _: True, dict(R=5))
    assert planned == dict(S=3, A=3, R=100)
    assert plan_investments([line("A", -100, day=2), line("R", 105, day=2)], 0, lambda _: False, dict(R=5)) == dict(
        A=100, R=100
    )
