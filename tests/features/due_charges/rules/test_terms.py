from pixconnect.features.due_charges.rules.terms import DEDUCTION_KINDS, DISCOUNT_KINDS, INTEREST_KINDS, UNTIL_A_DATE


def test_kinds_stand_in_the_order_of_the_standard() -> None:
    """``modalidade`` of fine and rebate, of interest, of discount, by the tables of Pix API 2.9.0, ``CobVValor``."""
    assert (DEDUCTION_KINDS.index("sum"), DEDUCTION_KINDS.index("percentage")) == (0, 1)
    assert [kind for kind in INTEREST_KINDS if "business" in kind] == list(INTEREST_KINDS[4:])
    assert [kind.startswith("sum") for kind in INTEREST_KINDS] == [True, False, False, False] * 2
    assert frozenset(DISCOUNT_KINDS[:2]) == UNTIL_A_DATE
    assert [kind for kind in DISCOUNT_KINDS if "business" in kind] == [DISCOUNT_KINDS[3], DISCOUNT_KINDS[5]]
