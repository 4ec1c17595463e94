"""One life costs no more than it did, by the exact counts that ``python -m bench.budget`` shows."""

import sys
from operator import gt

import pytest

from bench.budget import TOGETHER, count_rest, open_lives
from support.postgres import Addresses

PYTHON = (3, 11)  # the calls of each version differ
# By step: calls, statements and rows of a single life, and the calls of one of fifty. Lower them with what gets cheaper.
MOST = {
    "transfer": {
        "accept": (413, 4, 10, 153),
        "deliver": (298, 3, 2, 96),
        "hand over": (102, 2, 0, 19),
        "end": (356, 5, 6, 93),
        "deliver again": (298, 3, 2, 96),
    },
    "charge": {
        "create": (301, 4, 7, 109),
        "deliver": (298, 3, 2, 96),
        "be paid": (407, 6, 11, 154),
        "deliver again": (298, 3, 2, 96),
    },
}


@pytest.mark.parametrize("life", MOST)
async def test_a_life_costs_no_more_than_it_did(database: Addresses, life: str) -> None:
    async with open_lives(database) as lives:
        alone, together = await lives.count(life, 1), await lives.count(life, TOGETHER)
    costs = {
        step: (cost.calls_count, len(cost.statements), cost.rows_count, together[step].calls_count // TOGETHER)
        for step, cost in alone.items()
    }
    if sys.version_info[:2] != PYTHON:
        costs = {step: (0, statements_count, rows_count, 0) for step, (_, statements_count, rows_count, _) in costs.items()}
    assert {step: (cost, MOST[life][step]) for step, cost in costs.items() if any(map(gt, cost, MOST[life][step]))} == {}
    assert costs.keys() == MOST[life].keys()


@pytest.mark.long
def test_a_service_at_rest_sends_no_more_than_its_timers() -> None:
    counts = count_rest(60)
    # 60 looks for due work, 71 by faster timers, 57 rarer tasks, of which some may come twice. Load makes them fewer.
    assert counts.total() <= 210, counts.most_common()
