"""A party has all members within their lengths, even if an institution returns other ones."""

import msgspec
from msgspec import structs

from pixconnect.doors.api.contract.transfer import TransferParty, show_party
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY


def test_what_is_masked_or_too_long_is_cut_to_what_the_contract_takes() -> None:
    told = dict(branch="0001-9", tax_id="**.***.***/0001-**", account_number="0" * 21, name="A" * 256)
    shown = show_party(structs.replace(UNKNOWN_PARTY, **told))
    assert (shown.branch, shown.tax_id) == ("0001", "**.***.***/000")
    assert msgspec.convert(msgspec.to_builtins(shown), TransferParty) == shown


def test_what_fits_is_shown_as_it_was_told() -> None:
    told = dict(branch="0001", tax_id="***.982.247-**", account_number="12345-6", name="Ana")
    shown = show_party(structs.replace(UNKNOWN_PARTY, **told))
    assert {member: getattr(shown, member) for member in told} == told
