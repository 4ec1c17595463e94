"""Opens accounts at institutions: for a process when it first needs one, and for an operator's verb."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

from pixconnect.features.institutions.adapters.connection import InstitutionConnection, RecordedConnection
from pixconnect.features.institutions.adapters.opening import InvalidInstitutionAccount, open_institution
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.account_file import read_credential_files
from pixconnect.features.institutions.rules.institution import Institution
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.features.institutions.service.open_accounts import OpenAccounts, OpenInstitution
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SecretBox
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.pool import Pool

CallCounts = Counter[tuple[str, str]]
"""Of calls to institutions, by account and outcome."""
_FILE_LENGTH_MAX: Final = 64 * 1024


def make_opener(
    clock: SystemClock,
    entropy: SystemEntropy,
    note: Callable[[TakenExchange], None] | None = None,
    calls: CallCounts | None = None,
) -> OpenInstitution:
    """What opens accounts in this process.

    It raises ``BadRequest`` for one that is described wrongly, or whose secret store lacks a file.

    Args:
        clock: Of its calls.
        entropy: As above.
        note: Is shown each exchange, with all that is secret in it.
        calls: Counts the calls.
    """
    # An operator's verb ends with its answer, so its calls are not counted.
    counted = CallCounts() if calls is None else calls
    connect = InstitutionConnection if note is None else partial(RecordedConnection, note=note)

    def open_account(account: InstitutionAccount, credential: Credential) -> Institution:
        try:
            whole = read_credential_files(credential, read_text_file) if credential.is_outside else credential
            return open_institution(
                account, whole, clock, entropy, connect=connect, note=partial(_count, counted, account.name)
            )
        except InvalidInstitutionAccount as error:
            raise errors.BadRequest(str(error)) from None

    return open_account


def _count(calls: CallCounts, name: str, outcome: str) -> None:
    calls[name, outcome] += 1


def read_text_file(path: str) -> str:
    """The text of a file of a secret store, or of one that an account's file names; ``BadRequest`` names it."""
    try:
        found = read_named_file(Path(path).expanduser(), _FILE_LENGTH_MAX)
    except OSError as error:
        raise errors.BadRequest(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RuntimeError):
        # A NUL in it, or an unknown user's home.
        raise errors.BadRequest("a file's name cannot be one") from None
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.BadRequest(f"{path}: is no text in UTF-8") from None


@asynccontextmanager
async def open_accounts(
    pool: Pool, boxes: tuple[SecretBox, SecretBox | None], clock: SystemClock, server: ServerWatch, calls: CallCounts
) -> AsyncGenerator[OpenAccounts]:
    """The accounts of a process, each opened when it is first needed.

    Args:
        pool: Of the process.
        boxes: What opens credentials, and those that send, where the process may.
        clock: Of all calls.
        server: Says when a loss has paused them.
        calls: Counts the calls.
    """
    secret_box, sending_box = boxes
    opener = make_opener(clock, SystemEntropy(), calls=calls)
    accounts = OpenAccounts(pool, secret_box, opener, clock.monotonic_s, sending_box)
    # A loss has paused them.
    server.on_start(accounts.forget)
    try:
        yield accounts
    finally:
        await accounts.close()
