"""Idempotency: a request repeated under its ``external_id`` gets the first one's result, and takes effect once.

::

    judged ──refused──► made before? ──yes──► the same answer, or ExternalIdConflict     (a replay beats every refusal)
       │                     └──no──► the refusal
       └──► batch: made before? ──yes──► as above
                        └──no──► decided, written under a unique key

If two processes race, the second violates the unique key; its batch starts over and finds the first one's result. A batch whose
commit was lost runs again with the same ids and finds its own rows. So each try after the first looks for replays.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from pixconnect.kernel.rules.access import Caller
from pixconnect.kernel.rules.identifiers import IdempotentRequest, was_made_by
from pixconnect.platform.base import errors
from pixconnect.platform.pool import Connection, Pool


class New(Protocol):
    """A request with the ids that were generated for it."""

    may_exist: bool

    @property
    def holder_id(self) -> int: ...

    @property
    def external_id(self) -> str: ...

    @property
    def request(self) -> IdempotentRequest: ...


class Made(Protocol):
    @property
    def fingerprint(self) -> bytes | None: ...


MadeT = TypeVar("MadeT", bound=Made)
NewT = TypeVar("NewT", bound=New)


class Idempotency(Generic[MadeT]):
    """The idempotency of one kind of resource; ``find_many`` maps holder and external id to results."""

    def __init__(
        self,
        noun: str,
        find: Callable[[Pool, int, str], Awaitable[MadeT | None]],
        find_many: Callable[[Connection, Sequence[tuple[str, int]]], Awaitable[dict[tuple[int, str], MadeT]]],
    ) -> None:
        self._noun = noun
        self._find = find
        self._find_many = find_many

    async def find_replay(self, pool: Pool, caller: Caller, request: IdempotentRequest) -> MadeT | None:
        """Return the first result of the same request; ``None`` if it is new, ``ExternalIdConflict`` if contents differ."""
        if request.external_id is None:
            return None
        made = await self._find(pool, caller.holder_id, request.external_id)
        outcome = made and self._answer(made, request)
        if isinstance(outcome, errors.PixConnectError):
            raise outcome
        return outcome

    async def replay_or_refuse(self, pool: Pool, caller: Caller, request: IdempotentRequest, refusal: errors.Refusal) -> MadeT:
        """Return the first result of the same request; raise the refusal if it is new."""
        replayed = await self.find_replay(pool, caller, request)
        if replayed is None:
            raise refusal
        return replayed

    async def find_known(self, connection: Connection, batch: Iterable[New]) -> dict[tuple[int, str], MadeT]:
        """Find the requests of a batch that were made before. Without locks: the unique key decides races."""
        wanted: list[tuple[str, int]] = []
        for new in batch:
            if new.may_exist:
                wanted.append((new.external_id, new.holder_id))
            new.may_exist = True  # after any outcome of this try, the next try has to look
        return await self._find_many(connection, wanted) if wanted else {}

    def decide_each(
        self, batch: Iterable[NewT], known: dict[tuple[int, str], MadeT], decide: Callable[[NewT], MadeT]
    ) -> list[MadeT | errors.PixConnectError]:
        """Decide one outcome each, in order; each request sees the results of earlier ones."""
        outcomes: list[MadeT | errors.PixConnectError] = []
        for new in batch:
            name = new.holder_id, new.external_id
            made = known.get(name)
            # A replay beats every refusal, so this precedes the decision.
            if made is not None:
                outcomes.append(self._answer(made, new.request))
                continue
            # The same request may be in the batch twice.
            try:
                made = known[name] = decide(new)
            except (errors.RuleBroken, errors.ServiceUnavailable) as refusal:
                outcomes.append(refusal)
            else:
                outcomes.append(made)
        return outcomes

    def _answer(self, made: MadeT, request: IdempotentRequest) -> MadeT | errors.ExternalIdConflict:
        if made.fingerprint is not None and was_made_by(made.fingerprint, request):
            return made
        return errors.ExternalIdConflict(f"external_id: was already used for a {self._noun} with other contents")
