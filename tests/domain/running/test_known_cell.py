"""A cell's address is written in one way, never says who logs in, and is reached by the login of the home cell."""

import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from msgspec import structs

from pixconnect.domain.running.known_cell import KnownCell, parse_address


def a_cell(address: str) -> KnownCell:
    return KnownCell(
        number=1,
        name="second",
        address=parse_address(address),
        identity=UUID("0197c3a1-0000-4000-8000-000000000001"),
        state="OPEN",
        added_at=datetime(2026, 7, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("postgres://DB-2.example/pix", "postgresql://db-2.example:5432/pix"),
        ("postgresql://db-2.example:5432/pix", "postgresql://db-2.example:5432/pix"),
        (
            "postgresql://a:1,B/pix?target_session_attrs=primary",
            "postgresql://a:1,b:5432/pix?target_session_attrs=primary",
        ),
        ("postgresql://[::1]:6000/pix", "postgresql://[::1]:6000/pix"),
        (
            "postgresql://db/pix?sslrootcert=/etc/ca.pem&sslmode=verify-full",
            "postgresql://db:5432/pix?sslmode=verify-full&sslrootcert=/etc/ca.pem",
        ),
        ("postgresql:///pix?host=/run/pg", "postgresql:///pix?host=/run/pg"),
        ("postgresql://db/a%20b", "postgresql://db:5432/a%20b"),
        ("postgresql://db/pix?cluster=pix-2", "postgresql://db:5432/pix?cluster=pix-2"),
    ],
)
def test_addresses_of_one_place_are_written_alike(text: str, written: str) -> None:
    assert parse_address(text) == written
    assert parse_address(written) == written


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("postgresql://pix:secret@db/pix", "who logs in"),
        ("postgresql://db/pix?password=secret", "who logs in"),
        ("postgresql://db/pix?sslkey=/secret.key", "who logs in"),
        ("mysql://db/pix", "PostgreSQL"),
        ("db", "PostgreSQL"),
        ("", "PostgreSQL"),
        ("postgresql://db/pix#secret", "PostgreSQL"),
        ("postgresql://db", "names no database"),
        ("postgresql://db/", "names no database"),
        ("postgresql://db/a/b", "names no database"),
        ("postgresql://db/a%00b", "names no database"),
        ("postgresql://%00/pix", "names a host that is none"),
        ("postgresql:///pix?host=,/tmp", "names a host that is none"),
        ("postgresql://d b/pix", "names a host that is none"),
        (f"postgresql://{'a' * 64}.example/pix", "names a host that is none"),
        ("postgresql://a..b/pix", "names a host that is none"),
        ("postgresql://db/pix?target_session_attrs=master", "none of any, prefer-standby, primary"),
        (f"postgresql://db/pix?sslrootcert=/{'a' * 1000}", "characters, and may have 1,000"),
        ("postgresql:///pix", "names no host"),
        ("postgresql://db:0/pix", "port"),
        ("postgresql://db:65536/pix", "port"),
        ("postgresql://db:port/pix", "host"),
        ("postgresql:///pix?host=/tmp/a&port=secret", "port"),
        ("postgresql:///pix?host=/tmp/a&port=", "port"),
        (f"postgresql:///pix?host=/tmp/a&port={'9' * 5000}", "port"),
        ("postgresql:///pix?host=/tmp/a,/tmp/b,/tmp/c&port=1,2", "another number of ports"),
        ("postgresql://db,/pix", "host"),
        ("postgresql://db/pix?search_path=secret", "'search_path'"),
        ("postgresql://db/pix?secret", "is no address"),
        ("postgresql://db/pix?cluster=", "names a cluster of none"),
        ("postgresql://db/pix?cluster=%1bpix", "that nobody can print"),
        (f"postgresql://db/pix?cluster={'x' * 65}", "names a cluster of none"),
        ("postgresql://[db/pix", "is no address"),
    ],
)
def test_what_is_no_address_of_one_database_is_refused_and_not_shown(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint) as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("login", "address", "reached"),
    [
        ("postgresql://pix:pw@home:5432/home", "postgresql://db/pix", "postgresql://pix:pw@db:5432/pix"),
        ("postgresql://pix:p%40w@/home?host=/run", "postgresql://db/pix", "postgresql://pix:p%40w@db:5432/pix"),
        ("postgresql://pix@home/home", "postgresql:///pix?host=/run/pg", "postgresql://pix@/pix?host=/run/pg"),
        (
            "postgresql://home/home?user=pix&sslmode=require&sslkey=/pix.key",
            "postgresql://db/pix?sslmode=verify-full",
            "postgresql://db:5432/pix?sslmode=verify-full&user=pix&sslkey=/pix.key",
        ),
        ("", "postgresql://db/pix", ""),
        # Ours alone: a driver would refuse it.
        ("postgresql://pix@home/home", "postgresql://db/pix?cluster=pix-2", "postgresql://pix@db:5432/pix"),
    ],
)
def test_a_cell_is_reached_by_the_login_of_the_home_cell(login: str, address: str, reached: str) -> None:
    assert a_cell(address).address_for(login) == reached


def test_no_two_moves_of_a_cell_have_copies_of_the_same_name() -> None:
    since = datetime(2126, 11, 25, 16, 32, 58, 1, tzinfo=UTC)
    moving = structs.replace(a_cell("postgresql://db/pix"), moving_since=since)
    again = structs.replace(moving, moving_since=since + timedelta(microseconds=1))
    assert moving.copy_name != again.copy_name
    # PostgreSQL cuts longer ones off, and a slot's has nothing else.
    assert re.fullmatch("[a-z0-9_]{1,63}", moving.copy_name)


@pytest.mark.parametrize(
    ("text", "servers"),
    [
        ("postgresql://db/pix", ["postgresql://db:5432/pix"]),
        (
            "postgresql://a:1,[::1]/a%20b?target_session_attrs=primary&sslmode=disable",
            ["postgresql://a:1/a%20b?sslmode=disable", "postgresql://[::1]:5432/a%20b?sslmode=disable"],
        ),
        ("postgresql:///pix?host=/run/pg", ["postgresql:///pix?host=/run/pg"]),
        (
            "postgresql:///pix?host=/run/a,/run/b&port=1,2",
            ["postgresql:///pix?host=/run/a&port=1", "postgresql:///pix?host=/run/b&port=2"],
        ),
        (
            "postgresql:///pix?host=a,b",
            ["postgresql:///pix?host=a&port=5432", "postgresql:///pix?host=b&port=5432"],
        ),
    ],
)
def test_each_server_of_an_address_has_an_address(text: str, servers: list[str]) -> None:
    assert a_cell(text).list_servers() == servers
