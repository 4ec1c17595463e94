"""Values of rows in PostgreSQL's errors appear in no log and no traceback."""

import io
import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
import structlog

from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.logging import set_up_logging
from pixconnect.platform.outgoing_text import write_exception
from support import identity
from support.plain_logs import use_plain_logs
from support.postgres import Addresses

NAME, TAX_ID, PHONE, EMAIL = "Maria Silva", "52998224725", "+5581999990000", "maria@example.com"
VALUES = (NAME, TAX_ID, PHONE, EMAIL, "4711", "Recife")


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    set_up_logging("json", "info", stream)
    yield stream
    use_plain_logs()
    root.handlers = before
    root.setLevel(level)


@pytest.fixture
async def failures(database: Addresses) -> list[asyncpg.PostgresError | ValueError]:
    """Errors of a real server, and one of the driver, with values of a holder's row."""
    async with identity.open_context(database, SystemClock()) as context:
        owner = await identity.make_holder(context, account_number="4711", name=NAME, tax_id=TAX_ID, city="Recife")
    async with asyncpg.create_pool(
        database.owner_url, min_size=1, max_size=1, server_settings={"search_path": "pixconnect"}
    ) as pool:
        insert_key = "insert into pix_key (key, key_type, holder_id, created_at) values ($1, $2, $3, now())"
        await pool.execute(insert_key, PHONE, "PHONE", owner.id)
        found: list[asyncpg.PostgresError | ValueError] = []
        for statement, arguments in (
            (insert_key, (PHONE, "PHONE", owner.id)),
            ("update holder set transfer_limit_cents = -1 where id = $1", (owner.id,)),
            ("select $1::bigint", (NAME,)),
            ("select ($1::text || '')::bigint", (EMAIL,)),
        ):
            with pytest.raises((asyncpg.PostgresError, ValueError)) as caught:
                await pool.execute(statement, *arguments)
            found.append(caught.value)
    quoted = "".join(map(str, found)) + "".join(str(getattr(error, "detail", "")) for error in found)
    assert all(value in quoted for value in VALUES)
    return found


def assert_says_only_what_kind(text: str) -> None:
    text = re.sub(r'"timestamp":"[^"]*"', "", text)  # whose digits may be those of an account
    assert not [value for value in VALUES if value in text]
    for word in ("23505", "pix_key_pkey", "UniqueViolationError", "23514", "CheckViolationError", "22P02", "DataError"):
        assert word in text


def test_a_log_line_names_type_constraint_and_sqlstate_only(logged: io.StringIO, failures: list[Exception]) -> None:
    for error in failures:
        try:
            raise RuntimeError("group not written") from error
        except RuntimeError:
            structlog.get_logger("pixconnect.test").exception("request failed")
            logging.getLogger("some.library").exception("task failed")
        try:
            raise error
        except Exception as raised:
            logging.getLogger("asyncio").error("never retrieved", exc_info=raised)
    written = [json.loads(line) for line in logged.getvalue().splitlines()]
    assert len(written) == 3 * len(failures)
    assert all("Traceback (most recent call last):" in line["exception"] for line in written)
    assert_says_only_what_kind(logged.getvalue())


def test_causes_contexts_and_groups_are_written_without_values(failures: list[Exception]) -> None:
    def fail() -> None:
        try:
            raise failures[0]
        except Exception:  # noqa: BLE001  any exception
            raise ExceptionGroup("some parts failed", [*failures[1:], KeyError("plain")]) from None

    with pytest.raises(ExceptionGroup) as caught:
        fail()
    text = write_exception(caught.value)
    assert "KeyError: 'plain'" in text
    assert "4 of 4 in the group:" in text
    with pytest.raises(ZeroDivisionError) as during:
        _divide_while_handling(caught.value, failures[0])
    assert_says_only_what_kind(write_exception(during.value))
    assert "ZeroDivisionError: division by zero" in write_exception(during.value)


def _divide_while_handling(group: Exception, first: Exception) -> float:
    try:
        raise group from first
    except Exception:  # noqa: BLE001  any exception
        return 1 / 0


def test_what_the_driver_was_given_is_not_in_what_its_error_was_made_of() -> None:
    error = asyncpg.exceptions.DataError(f"invalid input: {NAME}")
    error.__cause__ = TypeError(f"{NAME} is no number")
    assert NAME not in write_exception(error)
    assert "TypeError" in write_exception(error)


def test_a_program_that_ends_by_such_an_error_writes_no_more() -> None:
    program = (
        "import asyncpg\n"
        "from pixconnect.platform.outgoing_text import hide_rows_in_tracebacks\n"
        "hide_rows_in_tracebacks()\n"
        "raise asyncpg.UniqueViolationError('Key (name)=(' + 'Maria' + ') exists')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "UniqueViolationError: sqlstate 23505" in done.stderr
    assert "Maria)" not in done.stderr


def test_other_exceptions_are_written_as_python_does(capsys: Any) -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        text = write_exception(error)
    assert text.splitlines()[0] == "Traceback (most recent call last):"
    assert text.splitlines()[-1] == "ValueError: outer"
    assert "The above exception was the direct cause" in text
