import asyncio
import errno
import os
import socket
import ssl
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from pixconnect.doors.cli import failures
from pixconnect.doors.cli.failures import CommandError
from pixconnect.platform.base.errors import InsufficientFunds
from pixconnect.platform.database_failure import DATABASE_AWAY, DATABASE_BUSY
from pixconnect.platform.local.child_process import Lifeline
from pixconnect.platform.migrations import NewerSchemaError, OtherVersionError


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (CommandError("no such holder"), "no such holder"),
        (InsufficientFunds("the balance is smaller"), "the balance is smaller"),
        (NewerSchemaError("run the newer program"), "run the newer program"),
        (asyncpg.InvalidPasswordError("no"), "PostgreSQL refuses the login (no): look at the user and password"),
        (asyncpg.ObjectNotInPrerequisiteStateError("takes none"), "in no state to do that (takes none): look at its log"),
        (asyncpg.UndefinedTableError("no holder"), "run `pixconnect migrate`"),
        (asyncpg.InvalidParameterValueError('role "pixconnect_service" does not exist'), "run `pixconnect migrate`"),
        (asyncpg.UndefinedObjectError('role "pix_app" does not exist'), "the login pix_app does not exist: create it"),
        (
            asyncpg.UndefinedObjectError('unrecognized configuration parameter "sslmod"'),
            "PostgreSQL has no setting 'sslmod': look behind the ? in PIXCONNECT_DATABASE_URL",
        ),
        (ssl.SSLCertVerificationError(1, "Hostname mismatch"), "not the one that was expected (Hostname mismatch): look at"),
        (OSError(errno.ENOSPC, "No space", "/var/x"), "the disk is full (/var/x): make room and try again"),
        (OSError(errno.EDQUOT, "Quota"), "the disk is full (Quota): make room and try again"),
    ],
)
def test_what_the_operator_can_mend_is_one_line(error: Exception, line: str) -> None:
    assert line in (failures.explain(error) or "")


@pytest.mark.parametrize("kind", [asyncpg.DataError, asyncpg.CharacterNotInRepertoireError, asyncpg.CheckViolationError])
def test_a_value_that_only_the_database_rejects_is_one_line_of_a_verb(kind: type[Exception]) -> None:
    error = kind("out of range\nDETAIL: a row")
    line = "the database rejects a value (out of range): nothing was done; correct the value"
    assert (failures.explain(error), failures.explain_refused_value(error)) == (None, line)
    assert failures.explain_refused_value(asyncpg.UniqueViolationError("a defect")) is None


def test_a_path_that_the_system_rejects_is_one_line_of_a_verb() -> None:
    error = FileExistsError(errno.EEXIST, "File exists", "/proc/self/mem")
    assert failures.explain_refused_value(error) == "/proc/self/mem: File exists"
    assert failures.explain_refused_value(OSError(errno.EIO, "a defect")) is None


@pytest.mark.parametrize("kind", [kind for kind in (*DATABASE_AWAY, *DATABASE_BUSY) if kind is not OSError])
def test_a_database_that_is_away_or_busy_is_one_line(kind: type[Exception]) -> None:
    assert "25006" in (failures.explain(kind("25006")) or "")


@pytest.mark.parametrize("kind", [kind for kind in DATABASE_AWAY if kind is not OSError])
def test_a_part_that_lost_its_database_is_started_again(kind: type[Exception]) -> None:
    logins = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
    assert failures.is_database_away(kind("gone")) is not issubclass(kind, logins)


@pytest.mark.parametrize("error", [KeyError("x"), ConnectionResetError(), FileNotFoundError("x")])
def test_a_defect_of_ours_keeps_its_traceback(error: Exception) -> None:
    assert failures.explain(error) is None


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://x@127.0.0.1:1/x",
        "postgresql://x@/x?host=/nowhere",
        "postgresql://x@nowhere.invalid/x",
        "http://example.com/x",
    ],
)
def test_a_database_that_is_not_there_is_one_line(url: str) -> None:
    async def connect() -> str | None:
        [outcome] = await asyncio.gather(asyncpg.connect(url, timeout=5), return_exceptions=True)
        return failures.explain(outcome) if isinstance(outcome, BaseException) else None

    assert "DATABASE_URL" in str(asyncio.run(connect()))


@pytest.mark.parametrize("number", [errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL])
def test_a_network_without_a_way_to_the_database_is_one_line_and_may_come_back(number: int) -> None:
    async def connect() -> BaseException:
        asyncio.get_running_loop().create_connection = refuse  # type: ignore[method-assign]
        [outcome] = await asyncio.gather(asyncpg.connect("postgresql://x@127.0.0.1:1/x"), return_exceptions=True)
        return cast("BaseException", outcome)

    async def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    error = asyncio.run(connect())
    assert os.strerror(number) in (failures.explain(error) or "")
    assert failures.is_database_away(error)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (asyncpg.CannotConnectNowError("the database system is in recovery mode"), 75),
        (asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"), 75),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), 75),
        (ConnectionError("the connection to the database was lost"), 75),
        (asyncpg.InvalidPasswordError("no"), 1),
        (NewerSchemaError("run the newer program"), 1),
        (OtherVersionError("use the version that made them"), 78),
    ],
)
def test_a_part_says_whether_only_the_database_keeps_it_from_working(error: Exception, status: int) -> None:
    with pytest.raises(SystemExit) as ended, failures.reported_to_supervisor(Lifeline()):
        raise error
    assert ended.value.code == status


@pytest.mark.parametrize(
    ("variables", "named"),
    [
        ([], "PIXCONNECT_DATABASE_URL"),
        (["DATABASE_URL"], "DATABASE_URL"),
        (
            ["PIXCONNECT_OPERATOR_DATABASE_URL", "PIXCONNECT_DATABASE_URL_FILE"],
            "PIXCONNECT_DATABASE_URL_FILE or PIXCONNECT_OPERATOR_DATABASE_URL",
        ),
    ],
)
def test_the_settings_that_hold_the_address_are_named(
    variables: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _unset_addresses(monkeypatch)
    for variable in variables:
        monkeypatch.setenv(variable, "postgresql://x:a-password@x/x")
    line = f"PostgreSQL refuses the login (no entry): look at {named}"
    assert failures.explain(asyncpg.InvalidAuthorizationSpecificationError("no entry")) == line


def _unset_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if "DATABASE_URL" in name]:
        monkeypatch.delenv(variable)


def test_a_socket_that_is_closed_to_us_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _unset_addresses(monkeypatch)

    async def connect() -> str | None:
        [outcome] = await asyncio.gather(
            asyncpg.connect(f"postgresql://x@/x?host={tmp_path}", timeout=5), return_exceptions=True
        )
        return failures.explain(outcome) if isinstance(outcome, BaseException) else None

    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind(str(tmp_path / ".s.PGSQL.5432"))
        closed.listen()
        (tmp_path / ".s.PGSQL.5432").chmod(0)
        was = os.geteuid()
        try:
            # Root can read everything.
            if was == 0:
                os.seteuid(65534)
            said = asyncio.run(connect())
        finally:
            os.seteuid(was)
    line = "the database cannot be reached ([Errno 13] Permission denied): start it, or look at "
    assert said == f"{line}the address in PIXCONNECT_DATABASE_URL"
