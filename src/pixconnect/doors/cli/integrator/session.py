"""A client with the right credentials; each failure becomes one sentence and an exit status."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime

from msgspec import Struct

from pixconnect.doors.cli.failures import CommandError, ExitStatus, RefusedByService
from pixconnect.doors.cli.integrator.credentials import Credentials, find_credentials
from pixconnect_client import (
    ApiError,
    Client,
    Forbidden,
    NoAnswer,
    NotFound,
    PixConnectError,
    RateLimited,
    Unauthorized,
    Unavailable,
)

_RETRIES = 2  # a person waits for the answer, so few tries; the client itself repeats only safe requests


class Session(Struct, frozen=True, kw_only=True):
    client: Client
    credentials: Credentials

    def own_key(self, given: str | None) -> str:
        """Return the named key, or one that is known to be the holder's."""
        key = given or self.credentials.key
        if key is None:
            raise CommandError(f"--key: missing; name a Pix key of yours ({self.credentials.source} has none)")
        return key

    def read_now(self) -> datetime:
        """By the clock that dates records: a sandbox's may have been moved."""
        mode = self.credentials.mode
        if mode == "sandbox" or (mode is None and is_sandbox(self.client)):
            return self.client.sandbox.clock().now
        return datetime.now(UTC)  # noqa: TID251  real time


@contextmanager
def open_session() -> Generator[Session]:
    credentials = find_credentials()
    with explaining(credentials), connect(credentials) as client:
        yield Session(client=client, credentials=credentials)


@contextmanager
def open_sandbox() -> Generator[Session]:
    """Open a session for verbs of a sandbox: any other service is refused before anything is done."""
    credentials = find_credentials()
    if credentials.mode == "live":
        raise CommandError(f"this verb is for a sandbox, and {credentials.source} leads to a live service: nothing was sent")
    with explaining(credentials), connect(credentials) as client:
        if credentials.mode is None and not is_sandbox(client):
            raise CommandError(f"this verb is for a sandbox, and {credentials.api_url} is none: nothing was done")
        yield Session(client=client, credentials=credentials)


def connect(credentials: Credentials) -> Client:
    try:
        return Client(
            credentials.api_url,
            credentials.client_id,
            credentials.client_secret,
            auth_url=credentials.auth_url,
            retries=_RETRIES,
        )
    except ValueError as error:
        raise CommandError(f"{error} (of {credentials.source})") from None


def is_sandbox(client: Client) -> bool:
    """Query something that only a sandbox has, and that changes nothing."""
    try:
        client.sandbox.clock()
    except NotFound:
        return False
    return True


def advise_scope(error: Forbidden, credentials: Credentials) -> str:
    _, lacks, scope = error.message.rpartition("lacks the scope ")
    if not lacks:
        return "ask an operator"
    return f"an operator adds it by `pixconnect client set --client-id {credentials.client_id} --add-scope {scope}`"


@contextmanager
def explaining(credentials: Credentials) -> Generator[None]:
    """Turn the service's refusals and timeouts into one sentence."""
    try:
        yield
    except PixConnectError as error:
        raise _explain(error, credentials) from None


def _explain(error: PixConnectError, credentials: Credentials) -> CommandError:
    if isinstance(error, NoAnswer) and not error.may_have_happened:
        # The paths in a home's file exist only while a service runs on it.
        start = credentials.start
        hint = f"start `{start}` (or the same with `pixconnect run`)" if start else "is it the right address?"
        # The system's message, without our address before it.
        reason = str(error).rpartition(": ")[2]
        return CommandError(
            f"nothing answers at {credentials.api_url} (of {credentials.source}; {reason}): {hint}",
            status=ExitStatus.UNAVAILABLE,
        )
    if error.may_have_happened:
        again = f"ask again with --external-id {error.external_id}" if error.external_id else "check before you try again"
        return CommandError(f"it may have been done all the same ({error}): {again}", status=ExitStatus.UNSURE)
    match error:
        case Unauthorized():
            return CommandError(
                f"{credentials.api_url} refuses the client {credentials.client_id} of {credentials.source}: {error.message}"
            )
        case Forbidden():
            todo = advise_scope(error, credentials)
            return CommandError(f"{error.message} (the client {credentials.client_id} of {credentials.source}): {todo}")
        case RateLimited() | Unavailable():
            after = f"; try again in {error.retry_after_s:.0f} s" if error.retry_after_s else "; try again"
            return CommandError(f"{error.message}{after} (request {error.request_id})", status=ExitStatus.UNAVAILABLE)
        case ApiError():
            # The field is shown as the typed option.
            return RefusedByService(error.message)
        case _:
            return CommandError(str(error))
