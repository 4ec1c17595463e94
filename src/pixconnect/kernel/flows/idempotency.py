"""Idempotency: a request repeated under its ``external_id`` gets the first one's result, and takes effect once.

::

    judged ──refused──► made before? ──yes──► the same answer, or ExternalIdConflict     (a replay beats every refusal)
       │                     └──no──► the refusal
       └──► batch: made before? ──yes──► as above
                        └──no──► decided, written under a unique key

Two processes may race: the second one meets the unique key, and its batch starts over and finds the first one's result.
A batch whose commit was lost runs again with the same ids, and finds its own. So each try after the first looks for
replays.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.charge import ChargeRequest
from pixconnect.kernel.rules.fingerprint import was_made_by
from pixconnect.kernel.rules.refund import RefundRequest
from pixconnect.kernel.rules.transfer import TransferRequest
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool

Request = ChargeRequest | TransferRequest | RefundRequest


class Made(Protocol):
    """What a request has made. What came in over the rail has no fingerprint."""

    @property
    def fingerprint(self) -> bytes | None: ...


class New(Protocol):
    """A request's new rows, with every id made before the first try."""

    may_exist: bool
    """Look for it first: the client named it, or it was tried before."""

    @property
    def holder_id(self) -> int: ...

    @property
    def external_id(self) -> str: ...

    @property
    def request(self) -> Request: ...


MadeT = TypeVar("MadeT", bound=Made)
NewT = TypeVar("NewT", bound=New)


class Idempotency(Generic[MadeT]):
    """The idempotency of one noun; ``find_many`` takes external id and holder, and answers by holder and external id."""

    def __init__(
        self,
        noun: str,
        find: Callable[[Pool, int, str], Awaitable[MadeT | None]],
        find_many: Callable[[Connection, Sequence[tuple[str, int]]], Awaitable[dict[tuple[int, str], MadeT]]],
    ) -> None:
        self._noun = noun
        self._find = find
        self._find_many = find_many

    async def find_replay(self, pool: Pool, caller: Caller, request: Request) -> MadeT | None:
        """The first result of the same request; ``None`` if it comes for the first time.

        Raises:
            ExternalIdConflict: The external id was used with other contents.
        """
        if request.external_id is None:
            return None
        made = await self._find(pool, caller.holder_id, request.external_id)
        if made is None:
            return None
        outcome = self._answer(made, request)
        if isinstance(outcome, errors.PixConnectError):
            raise outcome
        return outcome

    async def replay_or_refuse(self, pool: Pool, caller: Caller, request: Request, refusal: errors.Refusal) -> MadeT:
        """The first result of the same request; raises the refusal if it comes for the first time."""
        replayed = await self.find_replay(pool, caller, request)
        if replayed is None:
            raise refusal
        return replayed

    async def find_known(self, connection: Connection, batch: Iterable[New]) -> dict[tuple[int, str], MadeT]:
        """Find those of a batch that were made before. Nothing is locked: the unique key decides races."""
        wanted: list[tuple[str, int]] = []
        for new in batch:
            if new.may_exist:
                wanted.append((new.external_id, new.holder_id))
            new.may_exist = True  # after any outcome of this try, the next one has to look
        return await self._find_many(connection, wanted) if wanted else {}

    def decide_each(
        self, batch: Iterable[NewT], known: dict[tuple[int, str], MadeT], decide: Callable[[NewT], MadeT]
    ) -> list[MadeT | errors.PixConnectError]:
        """One outcome each, in order; each request sees what earlier ones made."""
        outcomes: list[MadeT | errors.PixConnectError] = []
        for new in batch:
            name = new.holder_id, new.external_id
            made = known.get(name)
            # A replay beats every refusal, so this comes before the decision.
            if made is not None:
                outcomes.append(self._answer(made, new.request))
                continue
            # Known to the rest of the batch: the same request may be in it twice.
            try:
                made = known[name] = decide(new)
            except (errors.RuleBroken, errors.ServiceUnavailable) as refusal:
                outcomes.append(refusal)
            else:
                outcomes.append(made)
        return outcomes

    def _answer(self, made: MadeT, request: Request) -> MadeT | errors.ExternalIdConflict:
        if made.fingerprint is not None and was_made_by(made.fingerprint, request):
            return made
        return errors.ExternalIdConflict(f"external_id: was already used for a {self._noun} with other contents")
