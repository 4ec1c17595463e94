"""One line for each failure that the operator can repair: the fault, and the remedy.

Exceptions are recognised by their class name, because importing the libraries that raise them takes longer than most verbs.
"""

import re
import traceback
from collections.abc import Collection, Generator
from contextlib import contextmanager
from enum import IntEnum

from pixconnect.doors.cli import terminal
from pixconnect.platform import environment
from pixconnect.platform.base.errors import PixConnectError, ServiceUnavailable
from pixconnect.platform.config import SettingsError
from pixconnect.platform.http.listening import ListeningError
from pixconnect.platform.local.child_process import DATABASE_AWAY_STATUS, ChildFailedError, Lifeline
from pixconnect.platform.local.home import HomeError, is_disk_full
from pixconnect.platform.local.postgres_placement import PostgresUnavailableError
from pixconnect.platform.local.supervisor import PartKeepsFailingError


class ExitStatus(IntEnum):
    """The exit status; its error is one line on standard error."""

    DONE = 0
    """Success."""
    REFUSED = 1
    """Wrong arguments, settings or credentials, or the service refuses: nothing was done, and a repetition is refused too."""
    UNAVAILABLE = 3
    """The service does not answer, or not now: nothing was done. Try again."""
    UNSURE = 4
    """No answer came: it may have been done. If the line names an `external_id`, repeating it under that is safe."""
    ENDED_BADLY = 5
    """The event, trigger or payment that the verb watched ended in another way than expected."""
    FOUND = 6
    """`doctor` or `institution check` found something to repair."""
    BROKEN = 7
    """`verify` found violations in the books."""
    OTHER_VERSION = 78
    """Another version made the database's tables, and no migration leads here: a repetition is refused too."""
    INTERRUPTED = 130
    """Ctrl-C."""
    READER_GONE = 141
    """The program that read its output ended first."""


class CommandError(Exception):
    """A verb failed; the message states the reason and the remedy."""

    def __init__(self, message: str, *, status: ExitStatus = ExitStatus.REFUSED) -> None:
        super().__init__(message)
        self.status = status


class RefusedByService(CommandError):  # noqa: N818  as the client's errors
    """The service refuses one of the typed values."""


# Their messages are complete: they were written for operators.
_SAY_IT_ALL = (
    ChildFailedError,
    CommandError,
    HomeError,
    ListeningError,
    PartKeepsFailingError,
    PixConnectError,
    PostgresUnavailableError,
    SettingsError,
)
# The other failures by name, each with the advice that surrounds its message.
_BY_NAME = {
    "AlreadyRunningError": "{}",
    "FeatureError": "{}",
    "InstallationError": "{}",
    "PoolerError": "{}",
    "SchemaError": "{}",
    "SealBroken": "{}: set PIXCONNECT_SECRET_KEY_FILE or PIXCONNECT_SECRET_KEY to the key it was sealed with",
    "SecretKeyError": "{}",
    "ClientCertificateError": "PIXCONNECT_WEBHOOK_CERTIFICATE_FILE, PIXCONNECT_WEBHOOK_KEY_FILE: {}",
    "InvalidPasswordError": "PostgreSQL refuses the login ({}): look at the user and password in {setting}",
    "InvalidAuthorizationSpecificationError": "PostgreSQL refuses the login ({}): look at {setting}",
    "InvalidCatalogNameError": "there is no such database ({}): create it, or look at {setting}",
    "InsufficientPrivilegeError": "the role may not do that ({}): set PIXCONNECT_OWNER_DATABASE_URL to a role that owns "
    "the tables and may make roles, for operators' verbs PIXCONNECT_OPERATOR_DATABASE_URL to one that may take "
    "pixconnect_operator, for `verify` PIXCONNECT_VERIFY_DATABASE_URL to one that may take pixconnect_verifier, and for "
    "the console PIXCONNECT_CONSOLE_DATABASE_URL to one that may take pixconnect_console",
    "CannotConnectNowError": "PostgreSQL is starting or stopping ({}): try again",
    "TooManyConnectionsError": "PostgreSQL has no connection left ({}): raise its max_connections",
    "UndefinedTableError": "the tables are missing or old ({}): run `pixconnect migrate`",
    "InvalidSchemaNameError": "the tables are missing ({}): run `pixconnect migrate`",
    "DiskFullError": "the database's disk is full ({}): make room and try again",
    "ClientConfigurationError": "{setting} is no address of a PostgreSQL database ({})",
    "SSLCertVerificationError": "the database's certificate is not the one that was expected ({}): look at sslrootcert, "
    "and at the name of the server, in {setting}",
    "ReadOnlySQLTransactionError": "the database only reads ({}): it is a standby, or was set so; try again when it writes",
    "ObjectNotInPrerequisiteStateError": "the database is in no state to do that ({}): look at its log, and try again",
    "InsufficientResourcesError": "PostgreSQL has reached a limit of its server ({}): look at its memory, and try again",
    "PostgresSystemError": "PostgreSQL cannot read or write its files ({}): look at its log",
}


# Temporary states of a database: it starts, stops, recovers from a crash, or has no connection left.
_DATABASE_AWAY = (
    "PostgresConnectionError",
    "InterfaceError",
    "InternalClientError",
    "AdminShutdownError",
    "CrashShutdownError",
    "CannotConnectNowError",
    "DatabaseDroppedError",
    "IdleSessionTimeoutError",
    "IdleInTransactionSessionTimeoutError",
    "TransactionTimeoutError",
    "ReadOnlySQLTransactionError",
    "InsufficientResourcesError",
    "PostgresSystemError",
)
_DATABASE_BUSY = (
    "QueryCanceledError",
    "LockNotAvailableError",
    "DeadlockDetectedError",
    "SerializationError",
    "InvalidCachedStatementError",
)
# PostgreSQL's messages if a connection assumes a missing role, or a statement names one.
_ABOUT_ROLES = {"InvalidParameterValueError", "UndefinedObjectError"}
_MISSING_ROLE = re.compile(r'role "([^"]*)" does not exist$')
# And for an unknown setting: the driver sends each unknown word of an address as one.
_UNKNOWN_SETTING = re.compile(r'unrecognized configuration parameter "([^"]*)"$')


def explain(error: BaseException, setting: str = "") -> str | None:
    """Return the line to show; ``None`` for an internal defect, whose traceback has more details.

    ``setting`` names the database's address that was used; otherwise the line names all that are set.
    """
    setting = setting or environment.name_database_settings()
    if isinstance(error, _SAY_IT_ALL):
        return str(error)
    if type(error).__name__ in _ABOUT_ROLES and (missing := _MISSING_ROLE.search(str(error))):
        if missing[1].startswith("pixconnect_"):
            return f"this server has never had our tables ({error}): run `pixconnect migrate`"
        return f"the login {missing[1]} does not exist: create it, or look at the users in the database's addresses"
    if type(error).__name__ == "UndefinedObjectError" and (unknown := _UNKNOWN_SETTING.search(str(error))):
        return f"PostgreSQL has no setting {unknown[1]!r}: look behind the ? in {setting}"
    for kind in type(error).__mro__:
        if kind.__name__ in _BY_NAME:
            return _BY_NAME[kind.__name__].format(error, setting=setting)
    if isinstance(error, OSError) and is_disk_full(error):
        return f"the disk is full ({error.filename or error.strerror}): make room and try again"
    # Only we raise ConnectionError itself, with a message; the system raises its subclasses.
    if type(error) is ConnectionError:
        return str(error)
    return _explain_loss(error, setting)


def report(error: BaseException) -> ExitStatus | None:
    """Print the line of a verb's failure and return its exit status; ``None`` for an internal defect."""
    if isinstance(error, KeyboardInterrupt):
        # As a shell reports a program that SIGINT ended.
        return ExitStatus.INTERRUPTED
    if isinstance(error, terminal.ReaderGone):
        return ExitStatus.READER_GONE
    line = explain(error) or explain_refused_value(error)
    if line is None:
        return None
    terminal.complain(line)
    return find_status(error)


def find_status(error: BaseException) -> ExitStatus:
    if isinstance(error, CommandError):
        return error.status
    if _is_one_of(error, ("OtherVersionError", "ChildEndedError")):
        return ExitStatus.OTHER_VERSION
    return ExitStatus.UNAVAILABLE if isinstance(error, ServiceUnavailable) else ExitStatus.REFUSED


def explain_refused_value(error: BaseException) -> str | None:
    """The line for a value that only PostgreSQL or the system rejects; in a part, which takes no values, it is a defect."""
    if _is_one_of(error, ("DataError", "CheckViolationError")):
        return f"the database rejects a value ({str(error).partition(chr(10))[0]}): nothing was done; correct the value"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return None


def _explain_loss(error: BaseException, setting: str) -> str | None:
    cause = error if str(error) else type(error).__name__
    if is_database_unreachable(error):
        return f"the database cannot be reached ({str(error) or 'no answer'}): start it, or look at the address in {setting}"
    if is_database_away(error):
        return f"the database was lost ({cause}): look at its log, and try again"
    if _is_one_of(error, _DATABASE_BUSY):
        return f"the database could not do it in time ({cause}): try again"
    return None


def is_database_unreachable(error: BaseException) -> bool:
    """Whether no server answers at the database's address."""
    # asyncpg passes on the system's errors of the network and of the resolver; a missing or closed Unix socket is a file error.
    # An unexpected certificate is for an operator to repair.
    if not isinstance(error, OSError) or _is_one_of(error, ("SSLError",)):
        return False
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any("asyncpg" in frame.f_code.co_filename for frame in frames)


def is_database_away(error: BaseException) -> bool:
    """Whether only the database stops a part, probably for a short time."""
    # Only we raise ConnectionError itself: the part's own connection was lost.
    if type(error) is ConnectionError or is_database_unreachable(error):
        return True
    return _is_one_of(error, _DATABASE_AWAY)


@contextmanager
def reported_to_supervisor(lifeline: Lifeline) -> Generator[None]:
    """End this process with one line, which the supervisor shows; or we do without one, or after its start phase."""
    try:
        yield
    except Exception as error:
        reason = explain(error)
        is_away = is_database_away(error)
        if reason is None:
            raise
        status = DATABASE_AWAY_STATUS if is_away else find_status(error)
        is_ended = status == ExitStatus.OTHER_VERSION
        tell = lifeline.report_end if is_ended else lifeline.report_database_away if is_away else lifeline.report_failure
        if not tell(reason):
            terminal.complain(reason)
        raise SystemExit(status if is_away or is_ended else ExitStatus.REFUSED) from None


def _is_one_of(error: BaseException, names: Collection[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)
