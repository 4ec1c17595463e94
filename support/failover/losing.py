"""Lose all machines of a cluster at once under load: what the archived log restores, and how fast."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Final

from msgspec import Struct

from support.whole_installation import Account, WholeInstallation

_SENT_CENTS: Final = 7


class Sent(Struct, frozen=True):
    """An acknowledged transfer: its name, and when on a monotonic clock."""

    external_id: str
    answered_s: float


@contextmanager
def sending(service: WholeInstallation, accounts: list[Account]) -> Iterator[list[Sent]]:
    """Each holder sends transfers to the next one until the block ends."""
    sent, is_over = list[Sent](), threading.Event()

    def send(account: Account, other: Account) -> None:
        for number in count():
            name = f"drill-{account.holder_id}-{number}"
            body = {"key": other.key, "key_type": "EMAIL", "amount": _SENT_CENTS, "external_id": name}
            answer = service.ask(account, "POST", "/v1/connect/transfer/key", body, timeout_s=5)
            if answer is not None and answer.status == 200:
                sent.append(Sent(name, time.monotonic()))
            if is_over.is_set():
                return

    pairs = zip(accounts, [*accounts[1:], accounts[0]], strict=True)
    threads = [threading.Thread(target=send, args=pair, daemon=True) for pair in pairs]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        is_over.set()
        for thread in threads:
            thread.join(60)


def find_forgotten(sent: list[Sent], kept: set[str], lost_s: float) -> tuple[int, float]:
    """How many acknowledged transfers are lost, and from how long before the loss."""
    forgotten = [each.answered_s for each in sent if each.external_id not in kept]
    return len(forgotten), max(0.0, lost_s - min(forgotten)) if forgotten else 0.0


def measure(act: Callable[[], object]) -> float:
    """In seconds."""
    began_s = time.monotonic()
    act()
    return time.monotonic() - began_s
