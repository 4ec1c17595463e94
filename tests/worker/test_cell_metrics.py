"""Metrics of several cells on one page: each value of another cell says which one it is."""

import asyncio
from collections.abc import Sequence

from pixconnect.domain.frame import errors
from pixconnect.foundation.metrics import Histogram, Measured, MetricFamily, write_text
from pixconnect.usecases.running.call_metrics import CALLS
from pixconnect.worker.cell_metrics import CellMetrics

DUE = MetricFamily(name="pixconnect_orders_due", kind="gauge", meaning="Due.", labels=("kind",))
SIZES = MetricFamily(name="pixconnect_group_size", kind="histogram", meaning="Sizes.")


def make_read(due_count: int):  # noqa: ANN201  as it is called
    async def read() -> Sequence[Measured]:
        sizes = Histogram((1,))
        sizes.observe(1, due_count)
        return (
            Measured(family=DUE, values={("refund",): 0, ("transfer",): due_count}),
            Measured(family=SIZES, values={(): sizes}),
            Measured(family=CALLS, values={CALLS.labels: Histogram((1,))}),
        )

    return read


async def fail() -> Sequence[Measured]:
    raise errors.ServiceUnavailable("away")


async def hang() -> Sequence[Measured]:
    await asyncio.sleep(3600)
    return ()


async def test_values_of_other_cells_stand_beside_those_of_the_home_cell() -> None:
    figures = CellMetrics(answer_within_s=0.05)
    read = figures.with_home(make_read(3))
    alone = write_text(await read())
    assert "cell" not in alone
    async with figures.added("second", make_read(5)), figures.added("third", fail), figures.added("fourth", hang):
        text = write_text(await read())
        lines = text.splitlines()
        assert 'pixconnect_orders_due{kind="transfer"} 3' in lines
        assert 'pixconnect_orders_due{kind="transfer",cell="second"} 5' in lines
        assert 'pixconnect_group_size_bucket{cell="second",le="+Inf"} 5' in lines
        assert 'pixconnect_group_size_count{cell="second"} 5' in lines
        assert "third" not in text
        assert "fourth" not in text
        assert sum(line.startswith("# TYPE pixconnect_orders_due") for line in lines) == 1
        # Institutions are reached once for all cells.
        assert not [line for line in lines if line.startswith(CALLS.name) and "cell=" in line]
    assert write_text(await read()) == alone


async def test_a_cell_that_is_measured_at_another_address_stays_when_the_former_one_ends() -> None:
    figures = CellMetrics()
    async with figures.added("second", make_read(7)):
        former = figures.added("second", make_read(1))
        await former.__aenter__()
        async with figures.added("second", make_read(2)):
            await former.__aexit__(None, None, None)
            assert 'cell="second"} 2' in write_text(await figures.with_home(make_read(0))())
