"""A Pix between two cells of a real installation: processes die at each of its steps, and it is done once or not at all."""

import random
from collections.abc import Iterator

import pytest

from support.two_cells import AMOUNT_CENTS, POINTS_OF_A_PIX, POINTS_OF_A_REFUND, TwoCells, open_two_cells

pytestmark = [pytest.mark.journey, pytest.mark.long, pytest.mark.xdist_group("pix between cells")]


@pytest.fixture(scope="module")
def two() -> Iterator[TwoCells]:
    with open_two_cells() as opened:
        yield opened


@pytest.mark.parametrize("payer", [0, 1])
@pytest.mark.parametrize("point", POINTS_OF_A_PIX)
def test_a_pix_leaves_one_cell_and_arrives_in_the_other_once(two: TwoCells, point: str, payer: int) -> None:
    two.service.points.arm(point)
    two.pay(payer, f"{point} {payer}".replace(" ", "-"))
    two.service.wait_until_killed(two.holders[0], point)
    two.check()


@pytest.mark.parametrize("point", POINTS_OF_A_REFUND)
def test_what_is_given_back_leaves_and_arrives_once(two: TwoCells, point: str) -> None:
    payer = len(point) % 2
    name = f"back-{point}".replace(" ", "-")
    sent = two.pay(payer, name).data["end_to_end_id"]
    two.check()
    two.service.points.arm(point)
    assert two.give_back(1 - payer, sent, name).status == 200
    two.service.wait_until_killed(two.holders[0], point)
    two.check()


def test_whoever_is_killed_while_money_goes_both_ways_nothing_is_lost_or_made(two: TwoCells) -> None:
    drawn = random.Random(30)  # noqa: S311  repeated by its seed
    sent: list[tuple[int, str]] = []
    for number in range(120):
        payer = drawn.randrange(2)
        if sent and drawn.random() < 0.4:
            back, name = drawn.choice(sent)
            two.give_back(1 - back, name, f"mixed-back-{number}", drawn.randrange(1, AMOUNT_CENTS))
        else:
            answer = two.pay(payer, f"mixed-{number}")
            if answer.status == 200:
                sent.append((payer, answer.data["end_to_end_id"]))
        if number % 15 == 14:
            two.service.kill(drawn.choice(("serve", "work", "sandbox", "database")))
    two.check()
    two.check_books()
