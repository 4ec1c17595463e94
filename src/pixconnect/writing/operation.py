"""The operations that batches can write, by name: a use case declares its operation beside the function that decides.

::

    START_TRANSFERS = WriteOperation("start_transfers", _start_transfers)
    ...
    transfer = await context.writes.submit(START_TRANSFERS, new)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, Protocol, TypeVar

from pixconnect.domain.frame import errors
from pixconnect.writing.batch import Batch


class OfHolder(Protocol):
    """A request that can wait in a queue: queues are shared fairly among holders."""

    @property
    def holder_id(self) -> int: ...


Request = TypeVar("Request", bound=OfHolder)
Answer = TypeVar("Answer")
Answer_contra = TypeVar("Answer_contra", contravariant=True)
Outcomes = Sequence[Answer | errors.PixConnectError]


class PendingReply(Protocol[Answer_contra]):
    """Receives a request's outcome: a future, or something cheaper that raises nothing."""

    def done(self) -> bool:
        """Whether nobody waits any more."""
        ...

    def set_result(self, result: Answer_contra, /) -> None: ...

    def set_exception(self, exception: errors.PixConnectError, /) -> None: ...


class WriteOperation(Generic[Request, Answer]):
    """One way of writing.

    Args:
        write: Writes a batch in its transaction and returns one outcome for each request, in order, admitted ones
            included. It may be called again with the same requests, and must then find what it wrote.
        makes_orders: Whether workers have to hand over what it writes.
        external_id_of: The idempotency key under which a client can repeat a request.
    """

    def __init__(
        self,
        name: str,
        write: Callable[[Batch[Request]], Awaitable[Outcomes[Answer]]],
        *,
        makes_orders: bool = False,
        external_id_of: Callable[[Request], str | None] = lambda _: None,
    ) -> None:
        self.name = name
        self.write = write
        self.makes_orders = makes_orders
        self.external_id_of = external_id_of
