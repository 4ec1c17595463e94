"""What an API process measures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pixconnect.foundation.metrics import Family, Measured, Read
from pixconnect.usecases import metrics as usecase_metrics

if TYPE_CHECKING:
    from pixconnect.usecases.context import Context

REQUESTS: Final = Family(
    name="pixconnect_requests_total",
    kind="counter",
    meaning="Requests answered; operation is empty where there is none of that path and method.",
    labels=("operation", "status"),
)
FAMILIES: Final = (REQUESTS, *usecase_metrics.FAMILIES)


def make_read(context: "Context", answers: Mapping[tuple[str, int], int]) -> Read:
    """Measures one API process; ``answers`` counts them by operation and status."""

    async def read() -> Sequence[Measured]:
        requests = {(operation, str(status)): count for (operation, status), count in answers.items()}
        return (Measured(family=REQUESTS, values=requests), *usecase_metrics.measure_groups(context.groups))

    return read
