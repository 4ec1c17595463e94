"""DNS resolution: hanging names of one holder do not delay another's. Against a name server in this process, over UDP."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
import uvloop

from pixconnect.platform.adapters.name_lookup import (
    FAILURES_MAX,
    LOOKUPS_MAX,
    LOOKUPS_OF_HOLDER_MAX,
    DnsLookup,
    NameLookups,
    read_hosts,
)
from pixconnect.platform.flow.shares import OutgoingLimit, current_party
from support.dns_server import DnsServer, open_dns_server
from support.waiting import until

GOOD = "shop.example"
PUBLIC = ["93.184.216.34", "2606:4700:4700::1111"]


def asking(dns: DnsServer) -> DnsLookup:
    """A resolver that asks that server, without a hosts file."""
    return DnsLookup(["127.0.0.1"], dns.port, hosts_path="/dev/null")


async def find(lookups: NameLookups, party: object, host: str) -> Sequence[str]:
    """As in a request of this holder."""
    current_party.set(party)
    return await lookups.find(host, 443)


class Book:
    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.asked: list[str] = []

    async def __call__(self, host: str, _port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError(0, "there is no such name")
        return self.names[host]


class Doors:
    """A look-up that ends when the test releases it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.asked: list[str] = []
        self.under_way_count = self.most_count = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        self.under_way_count += 1
        self.most_count = max(self.most_count, self.under_way_count)
        try:
            await self.open.wait()
        finally:
            self.under_way_count -= 1
        return PUBLIC


async def some_turns() -> None:
    """Long enough for one too many to begin."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_640_hanging_names_of_one_holder_keep_no_name_of_another_waiting() -> None:
    async with open_dns_server() as dns:
        dns.say(GOOD, PUBLIC)
        dns.hangs_below = ".evil.example"
        lookups = NameLookups(asking(dns))
        hanging = [asyncio.create_task(find(lookups, "evil", f"{number}.evil.example")) for number in range(640)]
        await until(lambda: len(dns.asked) > LOOKUPS_OF_HOLDER_MAX)
        assert await asyncio.create_task(find(lookups, "good", GOOD)) == PUBLIC
        # Behind them it would end after all of them.
        assert sum(task.done() for task in hanging) < 64
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_what_nobody_waits_for_any_more_is_dropped_and_its_place_free_at_once() -> None:
    doors = Doors()
    lookups = NameLookups(doors, lookup_s=600)
    given_up = [asyncio.create_task(find(lookups, "evil", f"{number}.evil.example")) for number in range(640)]
    await until(lambda: len(doors.asked) >= LOOKUPS_OF_HOLDER_MAX)
    await some_turns()
    assert len(doors.asked) == LOOKUPS_OF_HOLDER_MAX
    for task in given_up:
        task.cancel()
    await asyncio.gather(*given_up, return_exceptions=True)
    again = asyncio.create_task(find(lookups, "evil", GOOD))
    await until(lambda: len(doors.asked) > LOOKUPS_OF_HOLDER_MAX)
    assert doors.asked[LOOKUPS_OF_HOLDER_MAX:] == [GOOD]
    doors.open.set()
    assert await again == PUBLIC


async def test_a_holder_has_four_permits_and_each_of_the_others_has_its_own() -> None:
    doors = Doors()
    lookups = NameLookups(doors, lookup_s=600)
    tasks = [
        asyncio.create_task(find(lookups, holder_id, f"{number}.{holder_id}.example"))
        for holder_id in range(3)
        for number in range(10)
    ]
    await until(lambda: doors.most_count >= 3 * LOOKUPS_OF_HOLDER_MAX)
    await some_turns()
    assert doors.most_count == 3 * LOOKUPS_OF_HOLDER_MAX
    doors.open.set()
    assert await asyncio.gather(*tasks) == [PUBLIC] * 30
    assert doors.most_count <= 3 * LOOKUPS_OF_HOLDER_MAX


async def test_all_holders_together_have_so_many_permits() -> None:
    doors = Doors()
    lookups = NameLookups(doors, lookup_s=600)
    tasks = [asyncio.create_task(find(lookups, holder_id, f"{holder_id}.example")) for holder_id in range(2 * LOOKUPS_MAX)]
    await until(lambda: doors.under_way_count >= LOOKUPS_MAX)
    await some_turns()
    assert doors.under_way_count == LOOKUPS_MAX
    doors.open.set()
    await asyncio.gather(*tasks)
    assert doors.most_count == LOOKUPS_MAX


async def test_one_who_gives_up_leaves_the_look_up_to_those_who_still_wait() -> None:
    doors = Doors()
    lookups = NameLookups(doors, lookup_s=600)
    first, second = (asyncio.create_task(find(lookups, "one", GOOD)) for _ in range(2))
    await until(lambda: doors.asked == [GOOD])
    first.cancel()
    await asyncio.sleep(0)
    doors.open.set()
    assert await second == PUBLIC
    assert doors.asked == [GOOD]


async def test_a_failure_is_believed_for_some_seconds_and_no_longer() -> None:
    book = Book()
    believing, forgetting = NameLookups(book, failed_for_s=60.0), NameLookups(book, failed_for_s=0.05)
    for _ in range(5):
        with pytest.raises(OSError, match="there is no such name"):
            await believing.find(GOOD, 443)
    assert book.asked == [GOOD]
    with pytest.raises(OSError, match="there is no such name"):
        await forgetting.find(GOOD, 443)
    book.names[GOOD] = PUBLIC
    await asyncio.sleep(0.06)
    assert await forgetting.find(GOOD, 443) == PUBLIC
    with pytest.raises(OSError, match="there is no such name"):
        await believing.find(GOOD, 443)


async def test_a_name_that_hangs_has_its_own_time_and_is_not_asked_for_again_at_once() -> None:
    doors = Doors()
    lookups = NameLookups(doors, lookup_s=0.2)
    for _ in range(3):
        with pytest.raises(OSError, match=r"no answer within 0\.2 s"):
            await lookups.find("hangs.example", 443)
    assert doors.asked == ["hangs.example"]


async def test_no_more_failures_are_remembered_than_there_is_room_for() -> None:
    lookups = NameLookups(Book())
    for number in range(FAILURES_MAX + 20):
        with pytest.raises(OSError, match="there is no such name"):
            await lookups.find(f"{number}.example", 443)
    assert len(lookups._failed) == FAILURES_MAX


async def test_nothing_is_remembered_of_holders_that_have_nothing_under_way() -> None:
    limit = OutgoingLimit(10, holder_max=2, what="things")

    async def use(party: object) -> None:
        current_party.set(party)
        async with limit.hold():
            await asyncio.sleep(0)

    await asyncio.gather(*(asyncio.create_task(use(party)) for party in range(100) for _ in range(3)))
    assert len(limit._of_holder) == 0


async def test_all_addresses_of_both_kinds_are_found() -> None:
    async with open_dns_server() as dns:
        dns.say(GOOD, ["93.184.216.34", "10.0.0.1", "::1"])
        dns.say("four.example", ["93.184.216.34"])
        dns.say("none.example", [])
        lookup = asking(dns)
        assert await lookup(GOOD, 443) == ["93.184.216.34", "10.0.0.1", "::1"]
        assert await lookup("four.example", 443) == ["93.184.216.34"]
        assert await lookup("none.example", 443) == []
        with pytest.raises(OSError, match="there is no such name"):
            await lookup("nowhere.example", 443)


async def test_a_server_that_hangs_is_given_up_within_the_time_of_a_look_up() -> None:
    async with open_dns_server() as dns:
        dns.hangs_below = "example"
        with pytest.raises(OSError, match="no name server answered in time"):
            await asyncio.wait_for(asking(dns)(GOOD, 443), 60)


def test_a_look_up_that_is_given_up_leaves_no_socket_whenever_that_is() -> None:
    async def count_left_open() -> int:
        async with open_dns_server() as dns:
            dns.hangs_below = "example"
            before = count_sockets()
            for turn in range(12):
                asking_now = asyncio.create_task(asking(dns)(GOOD, 443))
                for _ in range(turn):
                    await asyncio.sleep(0)
                asking_now.cancel()
                await asyncio.gather(asking_now, return_exceptions=True)
            # Opening and closing without the network takes only some turns of the loop.
            for _ in range(20):
                await asyncio.sleep(0)
            return count_sockets() - before

    # uvloop, as in the service. asyncio closes a socket whose creation is cancelled, and a loop with such a socket
    # cannot be closed.
    loop = uvloop.new_event_loop()
    assert loop.run_until_complete(count_left_open()) <= 0
    loop.close()


def count_sockets() -> int:
    return sum(path.readlink().name.startswith("socket:") for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


async def test_what_is_written_on_this_machine_comes_first_and_is_followed(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# ours\n127.0.0.1 localhost me\n::1\tLocalhost. # too\nnonsense here\n10.1.2.3 shop.example\n")
    async with open_dns_server() as dns:
        dns.say(GOOD, PUBLIC)
        lookup = DnsLookup(["127.0.0.1"], dns.port, hosts_path=str(hosts))
        assert await lookup("localhost", 80) == ["127.0.0.1", "::1"]
        assert await lookup(GOOD, 443) == ["10.1.2.3"]
        hosts.unlink()
        assert await lookup(GOOD, 443) == PUBLIC
        assert await lookup("localhost", 80) == ["127.0.0.1", "::1"]


async def test_the_machines_own_name_servers_are_followed_when_they_change(tmp_path: Path) -> None:
    resolv_conf = tmp_path / "resolv.conf"
    lookup = DnsLookup(hosts_path="/dev/null", resolv_conf_path=str(resolv_conf))
    with pytest.raises(OSError, match="has no name server configured"):
        await lookup(GOOD, 443)
    resolv_conf.write_text("search shop.internal\nnameserver 127.0.0.9\noptions timeout:30\n")
    found = lookup._resolver.read()
    resolver = found._resolver
    assert [str(server) for server in resolver.nameservers] == ["127.0.0.9"]
    assert (resolver.timeout, resolver.lifetime) == (0.6, 1.8)
    assert lookup._resolver.read() is found


def test_this_machines_hosts_can_be_read() -> None:
    assert "localhost" in read_hosts("/etc/hosts")
    assert read_hosts("/no/such/file") == {}
