"""Another operator confirms a proposal, however the first one's name is written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec import structs

from pixconnect.kernel.rules.proposal import Proposal, check_confirmation, names_another_door
from pixconnect.platform.base import errors

MORNING = datetime(2026, 11, 10, 12, tzinfo=UTC)
PROPOSAL = Proposal(
    institution_id=1, act="close", contents={}, proposed_by="ana", proposed_at=MORNING,
    confirmable_at=MORNING + timedelta(hours=1),
)  # fmt: skip
LATER = PROPOSAL.confirmable_at


@pytest.mark.parametrize("name", ["ana", "Ana", " ana ", "console ana", "console console ana", "\uff41na", "a\u200bna"])
def test_nobody_confirms_what_they_have_proposed(name: str) -> None:
    with pytest.raises(errors.Forbidden, match="another operator confirms"):
        check_confirmation(PROPOSAL, name, LATER)


@pytest.mark.parametrize(("proposed_by", "name"), [("console ana", "ana@bastion"), ("1000@pod-a", "1000@pod-b")])
def test_a_person_without_a_name_of_their_own_is_one_on_every_host(proposed_by: str, name: str) -> None:
    with pytest.raises(errors.Forbidden, match="another operator confirms"):
        check_confirmation(structs.replace(PROPOSAL, proposed_by=proposed_by), name, LATER)


@pytest.mark.parametrize("name", ["bia", "bia@bastion", "ana maria", "anaconsole", "@ana"])
def test_another_operator_confirms_when_the_hour_is_over(name: str) -> None:
    check_confirmation(PROPOSAL, name, LATER)
    with pytest.raises(errors.BadRequest, match="may be confirmed from"):
        check_confirmation(PROPOSAL, name, LATER - timedelta(seconds=1))


def test_a_name_that_counts_as_the_proposers_is_refused_with_both_names() -> None:
    with pytest.raises(errors.Forbidden, match="ana has proposed it, and ana@bastion counts as the same person:"):
        check_confirmation(PROPOSAL, "ana@bastion", LATER)


def test_the_second_operator_reads_which_limits_are_removed() -> None:
    limits = structs.replace(PROPOSAL, act="limits", contents={"day_cents": 100000, "night_begins_late": 1})
    assert limits.contents_text == "day R$ 1.000,00, night_begins 22, night none, transfer none"


def test_a_proposal_lapses_after_thirty_days() -> None:
    last = MORNING + timedelta(days=30)
    check_confirmation(PROPOSAL, "bia", last - timedelta(seconds=1))
    with pytest.raises(errors.BadRequest, match="lapsed on 2026-12-10 09:00:00-03"):
        check_confirmation(PROPOSAL, "bia", last)


@pytest.mark.parametrize(
    "other",
    [
        dict(act="allow"),
        dict(institution_id=2),
        dict(institution_id=None, holder_id=1),
        dict(contents={"key": "x"}),
        dict(proposed_by="bia"),
        dict(proposed_at=MORNING + timedelta(microseconds=1)),
    ],
)
def test_another_proposal_has_another_code(other: dict[str, Any]) -> None:
    assert structs.replace(PROPOSAL, **other).code != PROPOSAL.code


@pytest.mark.parametrize(
    "name",
    ["console maria", "Client x", "  console", "c\u00adonsole maria", "\uff43onsole\u2003maria", "console\tmaria",
     "console-ana", "console_ana", "(console) ana", "c\u00f4nsole.ana", "client-7", "clients/7", "pattern 1"],
)  # fmt: skip
def test_a_name_of_the_command_line_reads_as_none_of_another_door(name: str) -> None:
    assert names_another_door(name)


@pytest.mark.parametrize("name", ["", "ana", "root@host", "ana console", "conso-ana"])
def test_other_names_are_taken(name: str) -> None:
    assert not names_another_door(name)
