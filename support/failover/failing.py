"""The failures of a cluster's machines, each with a duration, and their order by a seed."""

import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Final, Literal, get_args

from msgspec import Struct

from support.ha.cluster import Cluster
from support.ha.machine import Machine

Kind = Literal["killed", "lost", "stopped", "cut off", "demoted", "switched over", "replica lost", "etcd lost"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_ASKED_MAX: Final = 20
_USED_S: Final = 3.0  # how long another machine is primary before the former primary returns
_AWAY_S: Final = 8.0


class Failure(Struct, frozen=True):
    """A failure, with the number of the replica if one fails."""

    kind: Kind
    replica: int = 0


def plan(seed: int, rounds_count: int, kinds: Sequence[Kind] = KINDS) -> list[Failure]:
    """Return each kind equally often, in an order drawn from the seed."""
    chance = Random(f"{seed} failures")
    found: list[Failure] = []
    while len(found) < rounds_count:
        found += [Failure(kind, chance.randrange(2)) for kind in chance.sample(kinds, len(kinds))]
    return found[:rounds_count]


def fail(cluster: Cluster, failure: Failure) -> None:
    leader = cluster.find_leader()
    assert leader is not None, "there is no primary"
    primary = cluster.machines[leader]
    replica = [machine for machine in cluster.machines.values() if machine is not primary][failure.replica]
    act: dict[Kind, Callable[[], None]] = {
        "killed": lambda: primary.kill("postgres"),
        "lost": lambda: _lose(cluster, primary),
        "stopped": lambda: _stop(cluster, primary),
        "cut off": lambda: _cut_off(cluster, leader),
        "demoted": lambda: _demote(primary),
        "switched over": lambda: _switch_over(cluster, leader, replica),
        "replica lost": lambda: _lose_replica(replica),
        "etcd lost": lambda: _lose_etcd(cluster),
    }
    act[failure.kind]()


def _stop(cluster: Cluster, primary: Machine) -> None:
    primary.send(signal.SIGSTOP)
    _wait_for_another(cluster, primary.name)
    primary.send(signal.SIGCONT)


def _cut_off(cluster: Cluster, leader: str) -> None:
    cluster.network.pull(leader)
    _wait_for_another(cluster, leader)
    cluster.network.plug(leader)


def _demote(primary: Machine) -> None:
    primary.end("patroni")
    time.sleep(1)
    primary.start("patroni")


def _lose_etcd(cluster: Cluster) -> None:
    for machine in cluster.machines.values():
        machine.kill("etcd")
    time.sleep(_AWAY_S)
    for machine in cluster.machines.values():
        machine.start("etcd")


def _lose(cluster: Cluster, primary: Machine) -> None:
    primary.kill()
    _wait_for_another(cluster, primary.name)
    primary.start()


def _lose_replica(replica: Machine) -> None:
    replica.kill()
    time.sleep(_AWAY_S)
    replica.start()


def _wait_for_another(cluster: Cluster, leader: str) -> None:
    """Wait until another machine is primary for a moment, so that a returning one finds itself replaced."""
    cluster.wait_until(lambda: cluster.find_leader() not in {None, leader}, "another primary")
    time.sleep(_USED_S)


def _switch_over(cluster: Cluster, leader: str, to: Machine) -> None:
    for _ in range(_ASKED_MAX):
        # It refuses for a moment after another change.
        with suppress(AssertionError):
            cluster.patronictl("switchover", "pixconnect", "--leader", leader, "--candidate", to.name, "--force")
        if cluster.find_leader() == to.name:
            return
        time.sleep(1)
    raise AssertionError(f"{to.name} does not become the primary: {cluster.see()}")
