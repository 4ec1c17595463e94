"""The fixed entries of the sandbox's directory."""

from pathlib import Path

from pixconnect.features.sandbox.network import behaviour, registry
from pixconnect.kernel.rules.reject_code import RAISED_BY_NETWORK, REASONS

PAGE = Path(__file__).parents[4] / "docs/reference/spi-reject-codes.md"


def test_every_reject_code_has_an_entry_and_an_account_of_its_own() -> None:
    keys = {f"reject-{code.lower()}@sandbox.pix.example" for code in REASONS}
    assert keys < set(registry.FIXED_ENTRIES)
    assert len({entry.party.account_number for entry in registry.FIXED_ENTRIES.values()}) == len(REASONS) + 4


def test_the_declared_accounts_do_what_they_say() -> None:
    behaviours = {
        number: registry.behaviour_to(registry.outside_party(number, "X", "1"))
        for number in ("1001", "1002", "1003", "1004", "2001", "2002", "2003", "77")
    }
    assert behaviours["1001"] == behaviours["77"] == behaviour.USUAL
    assert behaviours["1002"].delay_ms == 3_000
    assert not behaviours["1003"].is_answered
    assert (behaviours["1004"].code, behaviours["1004"].delay_ms) == ("AB03", 40_000)
    assert [behaviours[number].code for number in ("2001", "2002", "2003")] == ["AC03", "AC07", "AB03"]


def test_a_refund_is_rejected_as_its_description_says() -> None:
    described = ("reject-ac03", "reject-xxxx", "reject", "AC03", "", None)
    assert [registry.behaviour_of_refund(text).code for text in described] == ["AC03", None, None, None, None, None]


def test_the_page_lists_every_code_with_its_meaning() -> None:
    rows = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    listed = {row[0].strip("| `"): (row[1], row[2].strip(" |")) for row in rows}
    assert listed == {
        code: (reason, "network" if code in RAISED_BY_NETWORK else "receiver") for code, reason in REASONS.items()
    }
