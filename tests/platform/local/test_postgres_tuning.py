from pathlib import Path

import pytest

from pixconnect.platform.local import postgres_placement
from pixconnect.platform.local.postgres_placement import GIB, Machine


@pytest.mark.parametrize(
    ("memory_bytes", "shared"), [(GIB // 4, "64MB"), (4 * GIB, "512MB"), (8 * GIB, "512MB"), (256 * GIB, "512MB")]
)
def test_the_memory_taken_follows_the_machines_within_bounds(memory_bytes: int, shared: str) -> None:
    machine = Machine(memory_bytes=memory_bytes, disk_free_bytes=100 * GIB, cores_count=4)
    assert postgres_placement.server_settings(machine, connections_max=50, durable=True)["shared_buffers"] == shared


def test_a_small_disk_gets_a_small_log() -> None:
    machine = Machine(memory_bytes=GIB, disk_free_bytes=2 * GIB, cores_count=1)
    assert postgres_placement.server_settings(machine, connections_max=50, durable=True)["max_wal_size"] == "256MB"


def test_durability_is_never_traded_for_speed() -> None:
    settings = postgres_placement.server_settings(
        postgres_placement.look_at_machine(Path("/")), connections_max=50, durable=True
    )
    assert {settings[name] for name in ("fsync", "synchronous_commit", "full_page_writes")} == {"on"}


def test_people_stay_out_of_the_servers_log() -> None:
    settings = postgres_placement.server_settings(
        postgres_placement.look_at_machine(Path("/")), connections_max=50, durable=True
    )
    assert settings["log_min_error_statement"] == "panic"
    assert settings["log_error_verbosity"] == "terse"
