"""The same seed and name draw the same."""

from pixconnect.features.sandbox.network.behaviour import Chance
from pixconnect.kernel.rules import tax_id


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
