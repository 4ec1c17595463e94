"""The kinds of database failures."""

import socket
import ssl
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from pixconnect.platform import database_failure

_AWAY = (
    # the network
    ConnectionResetError,
    ConnectionRefusedError,
    BrokenPipeError,
    FileNotFoundError,  # of the socket
    TimeoutError,
    socket.gaierror,
    ssl.SSLError,
    # the driver
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.exceptions.ProtocolError,
    asyncpg.exceptions.TargetServerAttributeNotMatched,
)
_AWAY_STATES = (
    *("08000", "08001", "08003", "08004", "08006", "08007", "08P01"),
    *("25006", "25P03", "25P04"),
    *("28000", "28P01", "3D000"),
    *("53000", "53100", "53200", "53300", "53400"),
    *("57P01", "57P02", "57P03", "57P04", "57P05"),
    *("58000", "58030", "58P01", "58P02"),
)
_BUSY_STATES = ("40001", "40P01", "55P03", "57014")
_WRONG_STATES = ("22021", "22003", "23505", "23514", "25001", "25P02", "42501", "42601", "42P01", "P0001", "XX000")


@pytest.mark.parametrize("kind", _AWAY, ids=lambda kind: kind.__name__)
def test_what_the_network_and_the_driver_say_is_a_database_that_is_away(kind: type[BaseException]) -> None:
    assert issubclass(kind, database_failure.DATABASE_AWAY)


@pytest.mark.parametrize("state", _AWAY_STATES)
def test_a_database_that_is_away_says_so_by_its_state(state: str) -> None:
    assert isinstance(_raised(state), database_failure.DATABASE_AWAY)


@pytest.mark.parametrize("state", _BUSY_STATES)
def test_a_database_that_did_not_get_to_it_is_busy(state: str) -> None:
    assert isinstance(_raised(state), database_failure.DATABASE_BUSY)
    assert not isinstance(_raised(state), database_failure.DATABASE_AWAY)


@pytest.mark.parametrize("state", _WRONG_STATES)
def test_what_we_have_asked_wrongly_is_neither(state: str) -> None:
    assert not isinstance(_raised(state), (*database_failure.DATABASE_AWAY, *database_failure.DATABASE_BUSY))
    assert isinstance(_raised(state), database_failure.DATABASE_FAILED)


def test_a_value_that_cannot_be_sent_is_not_a_database_that_is_away() -> None:
    assert not issubclass(asyncpg.DataError, database_failure.DATABASE_AWAY)


def test_a_missing_file_of_ours_is_not_a_missing_socket(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as own:
        (tmp_path / "secret.key").read_bytes()
    with pytest.raises(FileNotFoundError) as sockets, socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "socket"))
    assert (database_failure.is_of_own_file(own.value), database_failure.is_of_own_file(sockets.value)) == (True, False)


def _raised(state: str) -> asyncpg.PostgresError:
    new: Any = asyncpg.PostgresError.new
    error: asyncpg.PostgresError = new({"C": state, "M": "said by the server", "S": "ERROR"})
    return error


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("53100", "the database's disk is full"),
        ("53200", "the database is out of memory"),
        ("53300", "the database has no connection left"),
        ("53400", "the database has reached a limit of its server"),
        ("28P01", "the database refuses the service's login"),
        ("28000", "the database refuses the service's login"),
        ("3D000", "the server has no such database"),
        ("42501", "the database refuses the service a right that it needs"),
        ("57P03", "the database cannot be reached"),
    ],
)
def test_what_is_full_or_used_up_is_said_as_it_is(state: str, words: str) -> None:
    assert database_failure.explain_failure(_raised(state)) == words
    assert database_failure.explain_undone(_raised(state)) == f"{words}; nothing was done"
