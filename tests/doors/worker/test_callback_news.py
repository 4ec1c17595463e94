"""Callbacks in a worker: at most one reading within the interval, and none is forgotten."""

import asyncio

from pixconnect.features.institutions.rules.sweep import APART_S, choose_paces
from pixconnect.features.institutions.worker import CallbackNews


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


async def test_news_that_come_together_are_one_reading_and_the_next_waits() -> None:
    clock = Clock()
    news = CallbackNews(clock)
    assert news.take(3) == frozenset()
    news.receive(None, 0, "", "3 near")
    news.receive(None, 0, "", "3 near deep unknown")
    assert news.take(3) == {"near", "deep"}
    news.receive(None, 0, "", "3 near")
    assert news.take(3) == frozenset(), "it was read just now"
    news.note_call(4, ["near"])
    assert news.take(4) == {"near"}, "another account has its own"
    clock.now_s += APART_S
    assert news.take(3) == {"near"}
    assert news.take(3) == frozenset()


async def test_a_reader_rests_until_somebody_rings() -> None:
    news = CallbackNews(Clock())
    resting = asyncio.create_task(news.rest(3, 60))
    await asyncio.sleep(0)
    news.note_call(3, ["near"])
    await resting
    await CallbackNews(Clock()).rest(3, 0.0)


def test_a_body_that_names_a_return_has_all_returns_read() -> None:
    assert choose_paces(b'{"pix":[{"endToEndId":"E1"}]}') == ("near",)
    assert choose_paces(b'{"pix":[{"devolucoes":[]}]}') == ("near", "deep")
    assert choose_paces(b'{"event":"PIX_TRANSACTION_REFUND_SENT_CONFIRMED"}') == ("near", "deep")
