"""A missing ability of a rail is refused as documented, and only for requests that need it."""

import pytest

from pixconnect.kernel.rules import ability
from pixconnect.kernel.rules.rail import Abilities, Acknowledgement
from pixconnect.platform.base import errors
from support.records import a_transfer

ALL = Abilities()
NONE = Abilities(**dict.fromkeys(Abilities.__struct_fields__, False))
RECEIVED = a_transfer(direction="IN", amount_cents=1000)


def test_a_rail_that_can_do_it_all_forbids_nothing() -> None:
    ability.check_external_id(ALL, "auto:x")
    ability.check_refund_amount(ALL, 1, RECEIVED)
    ability.check_resolves_keys(ALL)
    ability.check_issues_codes(ALL)
    refusal = Acknowledgement(report_id="r", refusal_code="BE17")
    assert ability.answer_report(ALL, refusal) is refusal


def test_a_refund_of_a_part_is_refused_unless_it_never_reaches_the_rail() -> None:
    with pytest.raises(errors.AmountMismatch, match="as a whole: 1000 cents"):
        ability.check_refund_amount(NONE, 999, RECEIVED)
    ability.check_refund_amount(NONE, 1000, RECEIVED)
    ability.check_refund_amount(NONE, 1, a_transfer(direction="IN", amount_cents=1000, is_book=True))


def test_keys_and_codes_are_refused_by_name() -> None:
    with pytest.raises(errors.PixKeyNotFound, match="resolves no Pix keys"):
        ability.check_resolves_keys(NONE)
    with pytest.raises(errors.InvalidQrCode, match="no charge can be made"):
        ability.check_issues_codes(NONE)


def test_external_ids_of_automatic_refunds_are_kept_for_them() -> None:
    with pytest.raises(errors.ExternalIdConflict, match="'auto:'"):
        ability.check_external_id(NONE, "auto:E99999004202607011500abcdefghijk")
    for external_id in (None, "auto", "order-auto:"):
        ability.check_external_id(NONE, external_id)


def test_a_refusal_is_left_out_where_the_rail_takes_none() -> None:
    refusal = Acknowledgement(report_id="r", refusal_code="BE17")
    assert ability.answer_report(NONE, refusal) == Acknowledgement(report_id="r")
