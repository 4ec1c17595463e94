"""Which lines take blocked money off the account or return it, and which are of the account's own investment."""

from datetime import date, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.features.institutions.rules.institution import InstitutionItem
from pixconnect.features.institutions.rules.special_line import BlockOfAccount, is_own_investment, join_blocks, plan_investments

DAY, ONE_DAY = date(2026, 7, 1), timedelta(days=1)


def line(item_id: str, cents: int, kind: Any = "judicial", text: str = "BLOQUEIO JUDICIAL") -> InstitutionItem:
    return InstitutionItem(
        item_id=item_id, day=DAY, settled_at=None, direction="IN" if cents > 0 else "OUT", amount_cents=abs(cents),
        kind=kind, text=text,
    )  # fmt: skip


def about(end_to_end_id: str, cents: int) -> InstitutionItem:
    return structs.replace(line("P", cents, "pix", "PIX BLOQUEIO MED"), end_to_end_id=end_to_end_id)


COURT = BlockOfAccount(id=7, holder_id=1, kind="judicial", held_cents=500)
CONTEST = BlockOfAccount(id=8, holder_id=1, kind="med", held_cents=500)
DEBITED = BlockOfAccount(id=7, holder_id=1, kind="judicial", held_cents=500, debited_cents=500)
RAISED = structs.replace(DEBITED, held_cents=700)
MED = ("pix", "PIX BLOQUEIO MED")
RETURNED = structs.replace(CONTEST, held_cents=200, debited_cents=500, taken_cents=300)
OTHERS = structs.replace(CONTEST, id=9, holder_id=2)
TAKEN = structs.replace(CONTEST, debited_cents=500)
ONE, OTHER = (f"E99999004202607011500{name * 11}" for name in "ab")
OF_ONE = structs.replace(CONTEST, end_to_end_id=ONE)


@pytest.mark.parametrize(
    ("lines", "blocks", "joined", "waiting"),
    [
        ([line("D", -500)], [COURT], [("D", 7, False)], set[str]()),
        ([line("D", -500), line("C", 500)], [COURT], [("D", 7, False), ("C", 7, True)], set[str]()),
        ([line("C", 500)], [DEBITED], [("C", 7, True)], set[str]()),
        ([line("D", -500, *MED)], [COURT, CONTEST], [("D", 8, False)], set[str]()),
        ([line("D", -500), line("E", -500)], [COURT], [("D", 7, False)], {"E"}),
        # Another amount may be a part of the block; parts together are the block.
        ([line("D", -400)], [COURT], [], {"D"}),
        ([line("D", -400), line("E", -100)], [COURT], [("D", 7, False), ("E", 7, False)], set[str]()),
        ([line("E", -200)], [RAISED], [("E", 7, False)], set[str]()),
        # A block is returned in parts, and never more than was debited.
        ([line("C", 200), line("E", 300)], [DEBITED], [("C", 7, True), ("E", 7, True)], set[str]()),
        ([line("C", 200), line("E", 301)], [DEBITED], [("C", 7, True)], {"E"}),
        ([line("C", 200)], [DEBITED, structs.replace(DEBITED, id=9, held_cents=300)], [("C", 9, True)], set[str]()),
        ([line("C", 500, *MED), line("E", 200, *MED)], [RETURNED], [("E", 8, True)], {"C"}),
        ([line("D", -500, *MED)], [COURT], [], set[str]()),
        ([line("D", -500, "other", "TARIFA")], [COURT, CONTEST], [], set[str]()),
        # A line that names a Pix is of no other's block, although a payer can write the word.
        ([about(ONE, -500)], [CONTEST, structs.replace(OF_ONE, id=9)], [("P", 9, False)], set[str]()),
        ([about(OTHER, -500)], [OF_ONE, COURT], [], set[str]()),
        ([about(ONE, -200)], [OF_ONE], [("P", 8, False)], set[str]()),
        ([about(ONE, -501)], [OF_ONE], [], {"P"}),
        ([about(ONE, -300)], [OF_ONE, structs.replace(OF_ONE, id=9, held_cents=300)], [("P", 9, False)], set[str]()),
        # A credit is no part of one block while the debit of another, equal one may be read later.
        ([line("C", 200, *MED)], [TAKEN, structs.replace(OTHERS, held_cents=200)], [], {"C"}),
        ([about(OTHER, 500)], [structs.replace(OF_ONE, debited_cents=500)], [], set[str]()),
        # Older words of banks for a boleto.
        ([line("D", -500, "other", "PAG BLOQUETO")], [CONTEST], [], set[str]()),
        ([line("D", -400, "other", "PAG BLOQUETO")], [CONTEST], [], set[str]()),
        # A fee for a block is no part of it, and neither is what a payer or a holder wrote into a Pix.
        ([line("D", -5, "fee", "TARIFA BLOQUEIO JUDICIAL")], [COURT, CONTEST], [], set[str]()),
        ([line("C", 500, "pix", "PIX RECEBIDO DESBLOQUEIO MED")], [TAKEN], [], set[str]()),
        ([line("C", 500, "wire", "TED JOAO DESBLOQUEIO")], [TAKEN], [], set[str]()),
        ([line("D", -500, "other", "PEDIDO DO PAGADOR BLOQUEIO MED")], [CONTEST], [("D", 8, False)], set[str]()),
        ([line("D", -500, "pix", "PIX ENVIADO LOJA BLOQ")], [CONTEST], [], set[str]()),
        # Nothing tells which of two holders' blocks one line is of; two lines are both of them.
        ([line("D", -500, *MED)], [CONTEST, OTHERS], [], {"D"}),
        ([line("D", -500, *MED), line("E", -500, *MED)], [CONTEST, OTHERS], [("D", 8, False), ("E", 9, False)], set[str]()),
        ([line("C", 500, *MED)], [structs.replace(one, debited_cents=500) for one in (CONTEST, OTHERS)], [], {"C"}),
        ([line("D", -200, *MED), line("E", -300, *MED)], [CONTEST, OTHERS], [], {"D", "E"}),
        ([line("D", -500)], [DEBITED], [], {"D"}),
        ([line("D", -500)], [structs.replace(DEBITED, days=(date(2026, 6, 1), date(2026, 6, 2)))], [], set[str]()),
        ([line("C", 500)], [COURT], [], {"C"}),
    ],
)
def test_a_line_is_joined_to_a_block_of_its_kind_and_amount(
    lines: list[InstitutionItem], blocks: list[BlockOfAccount], joined: list[tuple[str, int, bool]], waiting: set[str]
) -> None:
    joins, waits = join_blocks(lines, blocks)
    assert ([(join.item_id, join.key[1], join.is_reversal) for join in joins], waits) == (joined, waiting)


def own(item_id: str, cents: int, text: str = "", day: int = 1, **changes: Any) -> InstitutionItem:
    text = text or ("APLICACAO AUTOMATICA" if cents < 0 else "RESGATE AUTOMATICO")
    return structs.replace(line(item_id, cents, "other", text), **dict(day=date(2026, 7, day)) | changes)


@pytest.mark.parametrize(
    "text",
    ["APLICACAO CDB", "Aplicação: CDB", "APLIC AUT", "APL APLIC AUT MAIS", "RES APLIC AUT MAIS", "RESGATE CONTAMAX", "RESG AUT",
     "DEB.APLICAÇÃO RDC", "CRED. RESGATE", "BB RENDE FACIL", "Rende Fácil"],
)  # fmt: skip
def test_a_line_whose_own_words_say_so_is_an_own_investment(text: str) -> None:
    assert is_own_investment(own("A", -100, text))
    for other in (
        dict(kind="pix"), dict(kind="fee"), dict(end_to_end_id="E1"), dict(tax_id="52998224725"),
        dict(counterparty="XP INVESTIMENTOS"),
    ):  # fmt: skip
        assert not is_own_investment(own("A", -100, text, **other))


@pytest.mark.parametrize(
    "text",
    ["REND PAGO APLIC AUT MAIS", "RENTAB.INVEST FACIL", "IRRF APLICACAO", "IOF RESGATE", "APLICATIVO DE CARONA",
     "PAGTO APLICACAO", "RESERVA HOTEL", "SALDO APLICACAO", "APLAUSO", "RESGATE IR RETIDO", "RESGATE I.R.", "APLICACAO IOF",
     "RESG IMPOSTO DE RENDA", "RES APLIC TRIBUTOS", "APL TAXA ADM", "APLIC TX", "RENDE FACIL TARIFA", "RESGATE COME-COTAS"],
)  # fmt: skip
def test_yield_taxes_and_other_words_are_none(text: str) -> None:
    assert not is_own_investment(own("A", -100, text))


@pytest.mark.parametrize(
    ("lines", "position", "planned"),
    [
        ([("A", -100)], 0, dict(A=100)),
        ([("A", -100), ("R", 100)], 0, dict(A=100, R=100)),
        # In the morning the investment returns with its yield; in the evening all is invested again.
        ([("A", -120), ("R", 102)], 100, dict(R=100, A=120)),
        ([("R", 60)], 100, dict(R=60)),
        ([("R", 125)], 100, dict(R=100)),
        # More than the yield: the rest was invested before the books began.
        ([("R", 126)], 100, dict(R=100)),
        ([("R", 100)], 0, dict(R=0)),
        ([("R", 100), ("S", 7)], 100, dict(R=100, S=0)),
        # A redemption that goes out, or an application that comes in, may be a correction.
        ([("R", 60), ("S", -60, "RESGATE AUT"), ("T", 7, "CRED APLICACAO"), ("U", -5, "RENDE FACIL"), ("V", 9, "RESG LIQ IR")],
            100, dict(R=60, S="could_be_ours", T="could_be_ours", U=5, V="could_be_ours")),
    ],
)  # fmt: skip
def test_how_much_of_each_line_moves_the_position(
    lines: list[tuple[Any, ...]], position: int, planned: dict[str, int | str]
) -> None:
    items = [own(*told) for told in lines]
    assert plan_investments(items, [(DAY - ONE_DAY, "OUT", position)], DAY, [], [DAY]) == planned


def test_a_redemption_waits_while_its_application_may_be_missing() -> None:
    assert plan_investments([own("R", 100)], [], DAY, [], []) == dict(R="could_be_ours")
    # Neither income nor that of its evening, if the day before was never read.
    evening = [own("R", 100, day=2), own("A", -100, day=2)]
    assert plan_investments(evening, [], date.max, [DAY], [DAY + ONE_DAY]) == dict(R="could_be_ours", A=100)
    days = [own("R", 103, day=2), own("A", -100, day=1), own("S", 50, day=3), own("B", -50, day=3)]
    assert plan_investments(days, [], DAY, [], [DAY + ONE_DAY, DAY + 2 * ONE_DAY]) == dict(
        A=100, R="not_yet_read", S="not_yet_read", B=50
    )
    assert plan_investments(days, [], DAY + ONE_DAY, [], []) == dict(A=100, R="could_be_ours", S="not_yet_read", B=50)


def test_a_redemption_takes_what_was_invested_on_its_day_and_is_left() -> None:
    # Of the third day's 100, the fourth has redeemed 60.
    invested = [(DAY + 2 * ONE_DAY, "OUT", 100), (DAY + 3 * ONE_DAY, "OUT", 30), (DAY + 3 * ONE_DAY, "IN", 60)]
    lines = [own("R", 5, day=2), own("S", 20, day=3), own("T", 60, day=4)]
    assert plan_investments(lines, invested, date.max, [], []) == dict(R="could_be_ours", S=20, T="could_be_ours")


def test_what_a_line_yielded_once_stays_its_yield() -> None:
    lines = [own("A", -3, day=1), own("R", 105, day=2), own("S", 10, day=1)]
    assert plan_investments(lines, [(DAY - ONE_DAY, "OUT", 100)], date.max, [], [DAY], dict(R=5)) == dict(S=3, A=3, R=100)
    lines = [own("A", -100, day=2), own("R", 105, day=2)]
    assert plan_investments(lines, [], date.max, [], [], dict(R=5)) == dict(A=100, R=100)
