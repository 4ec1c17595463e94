"""Limits of the console: rates by address before sign-in and by session for changes, and the number of followed pages.

A stranger's request is counted before a form is read, a page rendered or the database queried. A recently seen session passes
however much others send from the same address. No stream is refused, and no visitor can take all streams: a session's oldest
gives way to its next; when all are taken, the oldest of the party with the most gives way.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import Final

from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock, RatePolicy, TokenBuckets
from pixconnect.platform.bounded_cache import BoundedCache

STRANGERS: Final = RatePolicy(name="strangers", tokens_max=120, refill_per_s=20)
"""Requests of an address without a session: pages before sign-in, and redirects to them."""
NEWCOMERS: Final = RatePolicy(name="newcomers", tokens_max=120, refill_per_s=20)
"""Requests of an address with a session that this process has not seen: only the database knows whether it is valid."""
SIGN_INS: Final = RatePolicy(name="sign-ins", tokens_max=20, refill_per_s=1)  # forms that sign in, of an address
ACTS: Final = RatePolicy(name="acts", tokens_max=60, refill_per_s=1)
"""Forms that change something, of one holder's visitors or of one operator."""
SEARCHES: Final = RatePolicy(name="searches", tokens_max=30, refill_per_s=1)
"""Searches of one holder's visitors or of one operator: one may scan rows for a second."""
REFUSED_LINES: Final = RatePolicy(name="lines", tokens_max=120, refill_per_s=4)
"""Lines of the log about refused acts: of all strangers together, of one holder's visitors, or of one operator."""
SUGGESTIONS: Final = RatePolicy(name="suggestions", tokens_max=60, refill_per_s=4)
"""Suggestions while a visitor types, of one holder's visitors or of one operator."""
KNOWN_MAX: Final = 4096  # cached valid sessions, last seen ones


class Paces:
    """Each one's remaining rate, in this process."""

    def __init__(self, clock: Clock) -> None:
        self._monotonic_s = clock.monotonic_s
        self._buckets = TokenBuckets()
        self._known = BoundedCache[bytes, None](KNOWN_MAX)

    def spend(self, policy: RatePolicy, whose: Hashable) -> None:
        if not self.takes(policy, whose):
            bucket = self._buckets.find(policy, whose, self._monotonic_s())
            raise errors.RateLimited(f"too many requests ({policy.name})", bucket.seconds_until(1), policy)

    def takes(self, policy: RatePolicy, whose: Hashable) -> bool:
        """Spend one, and report whether one was left."""
        bucket = self._buckets.find(policy, whose, self._monotonic_s())
        is_left = bucket.read(self._monotonic_s()) >= 1
        if is_left:
            bucket.spend(1)
        return is_left

    def check_stranger(self, token: str | None, address: str) -> None:
        """Count a request without a known valid session."""
        if token is None:
            self.spend(STRANGERS, address)
        elif _hash(token) not in self._known:
            self.spend(NEWCOMERS, address)

    def note_good(self, token: str) -> None:
        """Remember a valid session's token."""
        self._known.keep(_hash(token), None)

    def note_over(self, token: str) -> None:
        self._known.pop(_hash(token), None)


def _hash(token: str) -> bytes:
    return hashlib.blake2b(token.encode("utf-8", "surrogatepass"), digest_size=16).digest()


STREAMS_MAX: Final = 64  # for one process
OF_SESSION_MAX: Final = 4  # a page in the background follows nothing, so a person rarely has more than one


class Stream:
    def __init__(self, session_id: int, party: Hashable) -> None:
        self.session_id = session_id
        self.party = party
        self.gives_way = asyncio.Event()


class Streams:
    """All of one process, the oldest first."""

    def __init__(self) -> None:
        self._open: list[Stream] = []

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def hold(self, session_id: int, party: Hashable) -> Generator[Stream]:
        """Hold a place while the block runs; if there is none, another stream loses its own."""
        of_session = [each for each in self._open if each.session_id == session_id]
        if len(of_session) >= OF_SESSION_MAX:
            self._end(of_session[0])
        elif len(self._open) >= STREAMS_MAX:
            ((largest, _),) = Counter(each.party for each in self._open).most_common(1)
            self._end(next(each for each in self._open if each.party == largest))
        stream = Stream(session_id, party)
        self._open.append(stream)
        try:
            yield stream
        finally:
            self._end(stream)

    def _end(self, stream: Stream) -> None:
        stream.gives_way.set()
        if stream in self._open:
            self._open.remove(stream)
