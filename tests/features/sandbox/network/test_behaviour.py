"""Which rule is for which message; and the same seed and name draw the same."""

import pytest

from pixconnect.features.sandbox.network import behaviour
from pixconnect.features.sandbox.network.behaviour import Chance, Faults, Message
from pixconnect.features.sandbox.rules import RULES_MAX, FaultMatch, FaultRule, SandboxRefusal
from pixconnect.kernel.rules import tax_id


def faults(*rules: FaultRule) -> Faults:
    made = Faults(Chance(1))
    made.replace(rules)
    return made


def rule(effect: str = "lost", *, times: int | None = None, **match: object) -> FaultRule:
    return FaultRule(effect=effect, match=FaultMatch(**match), times=times)


def message(operation: str = "submit", **changes: object) -> Message:
    return Message(**{"operation": operation, "id": "E1", "key": "a@b.example", "amount_cents": 7} | changes)


@pytest.mark.parametrize(
    ("match", "is_struck"),
    [
        ({}, True),
        ({"amount_cents": 7}, True),
        ({"amount_cents": 8}, False),
        ({"key": "A@B.example"}, True),
        ({"key": "other"}, False),
        ({"operation": "submit"}, True),
        ({"operation": "refund"}, False),
        ({"operation": "submit", "amount_cents": 7, "key": "a@b.example"}, True),
        ({"operation": "submit", "amount_cents": 8, "key": "a@b.example"}, False),
    ],
)
def test_what_is_left_out_of_a_match_matches_all(match: dict[str, object], is_struck: bool) -> None:
    assert (faults(rule(**match)).behaviour_of(message()) is not None) is is_struck


def test_the_first_rule_that_matches_wins() -> None:
    made = faults(rule("lost", amount_cents=8), rule("delay:5"), rule("reject:AC03"))
    assert made.behaviour_of(message()) == behaviour.behaviour_of("delay:5")


def test_a_rule_that_is_used_up_is_passed_over() -> None:
    made = faults(rule("delay:5", times=2), rule("reject:AC03"))
    found = [made.behaviour_of(message()) for _ in range(3)]
    assert [one.delay_ms for one in found if one is not None] == [5, 5, None]
    assert made.changed == {0: 0}


@pytest.mark.parametrize("operation", ["lookup", "resolve", "query"])
def test_without_an_operation_only_unavailable_reaches_questions(operation: str) -> None:
    assert faults(rule("lost")).behaviour_of(message(operation)) is None
    assert faults(rule("lost", operation=operation)).behaviour_of(message(operation)) is not None
    assert faults(rule("unavailable")).behaviour_of(message(operation)) is not None


@pytest.mark.parametrize("operation", ["submit", "refund", "return", "payment"])
def test_without_an_operation_everything_reaches_money(operation: str) -> None:
    assert faults(rule("lost")).behaviour_of(message(operation)) is not None


def test_a_message_without_an_amount_is_no_match_for_one() -> None:
    assert faults(rule("unavailable", amount_cents=7)).behaviour_of(message("lookup", amount_cents=None)) is None


def test_only_a_rule_about_everything_hides_everything() -> None:
    assert faults(rule("unavailable")).hides_everything
    assert not faults(rule("unavailable", operation="submit")).hides_everything
    assert not faults(rule("unavailable", times=0)).hides_everything
    assert not faults(rule("lost")).hides_everything


@pytest.mark.parametrize("rules", [[rule("reject:XXXX")], [rule()] * (RULES_MAX + 1)])
def test_rules_that_could_never_work_are_refused(rules: list[FaultRule]) -> None:
    with pytest.raises(SandboxRefusal):
        behaviour.check_rules(rules)


def test_a_draw_depends_on_seed_and_name_and_on_nothing_else() -> None:
    first = Chance(7)
    first.fraction("something else")
    assert first.text(11, "E", 5) == Chance(7).text(11, "E", 5)
    assert len({Chance(seed).text(11, "E", number) for seed in (-1, 0, 1) for number in range(50)}) == 150


def test_fractions_are_spread_between_zero_and_one() -> None:
    drawn = [Chance(1).fraction("f", number) for number in range(1000)]
    assert 0 <= min(drawn) < 0.05
    assert 0.95 < max(drawn) < 1
    assert 0.45 < sum(drawn) / 1000 < 0.55


def test_every_cpf_has_right_check_digits() -> None:
    assert all(tax_id.is_cpf(Chance(1).cpf(number)) for number in range(300))


def test_uuids_are_of_version_4() -> None:
    assert {Chance(1).uuid(number).version for number in range(20)} == {4}
