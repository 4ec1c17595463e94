"""A process reaches a cell by the settings of the home cell, at the address of that cell."""

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from msgspec import structs

from pixconnect.assembly.cell_settings import settings_of
from pixconnect.config import Settings
from pixconnect.domain.running.known_cell import KnownCell

CELL = KnownCell(
    number=1,
    name="second",
    address="postgresql://db:5432/pix",
    identity=UUID("0197c3a1-0000-4000-8000-000000000001"),
    state="OPEN",
    added_at=datetime(2026, 7, 1, tzinfo=UTC),
)


def test_each_login_of_the_settings_has_its_own_at_a_cell() -> None:
    home = Settings(
        database_url="postgresql://service@home/h",
        owner_database_url="postgresql://owner@home/h",
        read_database_url="postgresql://service@standby/h",
        database_cluster="home",
        port=1,
    )
    assert settings_of(home, CELL) == replace(
        home,
        database_url="postgresql://service@db:5432/pix",
        owner_database_url="postgresql://owner@db:5432/pix",
        # They are the home's: no process may take a standby of one cell for that of another.
        read_database_url="",
        database_cluster="",
    )


def test_the_cluster_of_a_cell_stands_in_its_address() -> None:
    clustered = structs.replace(CELL, address="postgresql://db:5432/pix?cluster=pix-2")
    reached = settings_of(Settings(database_url="postgresql://service@home/h", database_cluster="home"), clustered)
    assert (reached.database_url, reached.database_cluster) == ("postgresql://service@db:5432/pix", "pix-2")
