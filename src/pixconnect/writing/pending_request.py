"""One request in a queue with whoever waits for its answer, and what is said to those whose requests are refused there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic

from pixconnect.domain.frame import errors
from pixconnect.writing.operation import Answer, PendingReply, Request, WriteOperation


class PendingRequest(Generic[Request, Answer]):
    """One request and whoever waits for its answer."""

    __slots__ = ("answer", "asked_at_s", "lost_at_s", "operation", "request")

    def __init__(
        self,
        operation: WriteOperation[Request, Answer],
        request: Request,
        answer: PendingReply[Answer],
        asked_at_s: float,
    ) -> None:
        self.operation = operation
        self.request = request
        self.answer = answer
        self.asked_at_s = asked_at_s
        # When a COMMIT with this request in it was lost: from then on it may have taken effect.
        self.lost_at_s: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether it was answered, or its client has gone."""
        return self.answer.done()

    def resolve(self, outcome: Answer | errors.PixConnectError) -> None:
        if self.is_over:
            return
        if not isinstance(outcome, errors.PixConnectError):
            self.answer.set_result(outcome)
        elif self.lost_at_s is not None and isinstance(outcome, errors.ServiceUnavailable | errors.InternalError):
            # Both errors promise that nothing was done, but the lost COMMIT may have written this one.
            self.resolve_unknown()
        else:
            self.answer.set_exception(outcome)

    def resolve_unknown(self) -> None:
        """Answer ``OutcomeUnknown``, which says how to repeat the request."""
        if not self.is_over:
            self.answer.set_exception(_unknown(self.operation.external_id_of(self.request)))


def refuse_stalled(waiters: Sequence[PendingRequest[Request, Answer]]) -> None:
    for waiter in waiters:
        waiter.resolve(account_stalled())


def refuse_for_room(waiter: PendingRequest[Request, Answer]) -> None:
    waiter.resolve(queue_full())


def queue_full() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the write queue is full: try again shortly; nothing was done")


def refuse_if(*, is_away: bool) -> None:
    if is_away:
        raise errors.ServiceUnavailable("the database cannot be reached; nothing was done")


def account_stalled() -> errors.ServiceUnavailable:
    return errors.ServiceUnavailable("the account is locked by another operation; nothing was done")


def _unknown(external_id: str | None) -> errors.OutcomeUnknown:
    lost = "the database was lost during the commit and what happened is unknown"
    if external_id is None:
        return errors.OutcomeUnknown(lost)
    return errors.OutcomeUnknown(
        f'{lost}: repeat the request with external_id "{external_id}", which cannot take effect twice'
    )
