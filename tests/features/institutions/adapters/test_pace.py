import asyncio

import pytest

from pixconnect.features.institutions.adapters.connection import BudgetSpent, CallPaces
from pixconnect.features.institutions.profiles.account_traits import AccountTraits, Route
from pixconnect.features.institutions.profiles.profile import NAMES, read_profile
from pixconnect.platform.adapters.system import SystemEntropy
from support.service import FakeClock


class StandingClock(FakeClock):
    monotonic_now_s = 0.0

    def monotonic_s(self) -> float:
        return self.monotonic_now_s


def paces_of(name: str, clock: StandingClock, *, is_homologation: bool = False) -> CallPaces:
    return CallPaces(read_profile(name).account, clock, SystemEntropy(), is_homologation=is_homologation)


async def count_in_a_minute(paces: CallPaces, clock: StandingClock, route: Route) -> int:
    count = 0
    for second in range(60):
        clock.monotonic_now_s = float(second)
        while True:
            try:
                await paces.take(route, 0)
            except BudgetSpent:
                break
            count += 1
    return count


@pytest.mark.parametrize(
    ("name", "route", "most", "is_homologation"),
    [
        ("inter", "token", 5, False), ("inter", "charge", 120, False), ("inter", "charge", 10, True),
        ("inter", "statement", 10, False), ("sicoob", "account", 120, False), ("sicoob", "list", 3000, False),
        ("sicoob", "send", 40, False), ("sicoob", "sent", 20, False), ("efi", "charge", 30_000, False),
    ],
)  # fmt: skip
async def test_each_minute_keeps_to_the_allowed_pace(name: str, route: Route, most: int, is_homologation: bool) -> None:
    clock = StandingClock()
    count = await count_in_a_minute(paces_of(name, clock, is_homologation=is_homologation), clock, route)
    assert most / 3 <= count <= most


@pytest.mark.parametrize("name", NAMES)
def test_every_route_has_a_pace(name: str) -> None:
    traits: AccountTraits = read_profile(name).account
    for route in ("token", "charge", "list", "pix", "refund", "webhook", "account", "statement", "send"):
        for pace in traits.find_paces(route, is_homologation=True):
            assert min(pace.burst, pace.per_minute) > 0


async def test_a_pause_is_as_long_as_asked_grows_without_a_wish_and_ends_with_a_success() -> None:
    clock = StandingClock()
    paces = paces_of("efi", clock)
    assert 7 <= paces.pause("list", 7) <= 8
    with pytest.raises(BudgetSpent) as refused:
        await paces.take("list", 60)
    assert refused.value.retry_after.total_seconds() >= 7
    clock.monotonic_now_s += 8
    await paces.take("list", 0)
    grown = [paces.pause("token", None) for _ in range(10)]
    assert grown[0] <= 1
    assert 30 <= grown[-1] <= 60
    paces.note_success("token")
    assert paces.pause("token", None) <= 1
    assert paces.pause("refund", 10**9) <= 600


async def test_who_stops_waiting_gives_the_call_back() -> None:
    clock = StandingClock()
    paces = paces_of("sicoob", clock)
    await paces.take("account", 0)
    waiting = asyncio.create_task(paces.take("statement", 5))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    clock.monotonic_now_s += 1
    await paces.take("account", 0)
