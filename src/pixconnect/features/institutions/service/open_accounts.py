"""Opens accounts at institutions: their credentials, sealed in the database, and the clients that one process has open.

A process reads an account again after an operator's change, which is visible within a second (``IN_FORCE_AFTER_S``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Final

import msgspec
import structlog
from msgspec import structs

from pixconnect.features.identity.service.secret_key import Resealing, SealedKind
from pixconnect.features.institutions.accounts import ACCOUNT, AccountSource
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules.account import (
    UNNAMED_ISPB,
    AccountCertificate,
    Credential,
    EndingCertificate,
    InstitutionAccount,
    abilities_of,
    account_seal,
    are_at_one_institution,
    find_ending,
    find_shared_member,
)
from pixconnect.features.institutions.rules.account_file import AccountDescription, ReadFile
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix, SentPix
from pixconnect.features.institutions.rules.sweep import callback_seal
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables.account import SealedCredentials
from pixconnect.kernel.flows.context import Context, Operator, write_alone
from pixconnect.kernel.flows.credit import CREDIT_SOURCE
from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.kernel.rules.rail import Rail
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import describe_end
from pixconnect.platform.base.entropy import SealBroken, SecretBox
from pixconnect.platform.pool import Connection, Pool

_NO_KEY: Final = "this process has no PIXCONNECT_SENDING_SECRET_KEY for the credential that sends"
_OTHER_KEY: Final = "PIXCONNECT_SENDING_SECRET_KEY is not the key that the credential that sends was sealed with"

OpenInstitution = Callable[[InstitutionAccount, Credential], port.Institution]
"""Makes the client of an account; it connects on its first call."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Credential).decode
_log = structlog.get_logger(__name__)


def seal_credentials(
    box: SecretBox, sending_box: SecretBox | None, description: AccountDescription, account_id: int
) -> SealedCredentials:
    """Seal the receiving credential for all processes, and the sending one under a key that API processes lack.

    Raises:
        BadRequest: There is a sending credential, and no key to seal it with.
    """
    sending: bytes | None = None
    if description.sending is not None:
        if sending_box is None:
            raise errors.BadRequest(
                "send: there is no key to seal it with: set PIXCONNECT_SENDING_SECRET_KEY for workers and operators"
            )
        sending = sending_box.seal(_encode(description.sending), account_seal(account_id, "sending"))
    return SealedCredentials(receiving=box.seal(_encode(description.receiving), account_seal(account_id)), sending=sending)


async def read_sending_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """Read the sending credential; ``None`` if the account has no separate one."""
    sealed = await account_store.read_sealed(connection, account_id)
    if sealed is None or sealed.sending is None:
        return None
    return _decode(box.open(sealed.sending, account_seal(account_id, "sending")))


async def find_why_sealed(context: Operator, connection: Connection, account_id: int) -> str | None:
    """Find why this process cannot open the sending credential; ``None`` if it can, or the account has no separate one."""
    if context.sending_box is not None:
        try:
            await read_sending_credential(connection, context.sending_box, account_id)
        except SealBroken:
            # A backup has the values sealed at its time, and the key may have been replaced since.
            return "PIXCONNECT_SENDING_SECRET_KEY is not the key that it was sealed with"
        return None
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None or sealed.sending is None else "PIXCONNECT_SENDING_SECRET_KEY is not set here"


async def read_credential(connection: Connection | Pool, box: SecretBox, account_id: int) -> Credential | None:
    """Read the receiving credential; ``None`` if the account does not exist."""
    sealed = await account_store.read_sealed(connection, account_id)
    return None if sealed is None else _decode(box.open(sealed.receiving, account_seal(account_id)))


async def _reseal(run: Resealing) -> int:
    """Reseal credentials at institutions, and secrets of callbacks; processes that have one open keep it."""
    context, count = run.context, 0
    async with context.pool.acquire() as connection, connection.transaction():
        for account in await account_store.list_all(connection):
            before = await account_store.read_sealed(connection, account.id)
            if before is None:
                continue
            receiving = run.again(before.receiving, account_seal(account.id))
            about_sending = account_seal(account.id, "sending")
            sending: bytes | None = None
            if context.sending_box is not None:
                sending = run.again(before.sending, about_sending, context.sending_box)
            # The key that opens it may be on another machine. It is named, so that this is run again there.
            elif before.sending is not None:
                run.broken.append(about_sending)
            if receiving is not None or sending is not None:
                again = receiving or before.receiving, sending or before.sending
                await account_store.reseal(connection, account.id, *again)
                count += 1
        for callback in await account_store.lock_callbacks(connection):
            if (sealed := run.again(callback.secret_sealed, callback_seal(callback.institution_id))) is not None:
                await account_store.CALLBACK.put(connection, structs.replace(callback, secret_sealed=sealed))
    return count


SEALED_KINDS: Final = (SealedKind("institution_accounts", _reseal),)


async def open_credential(context: Operator, account_id: int) -> Credential:
    """Read the receiving credential; raises ``NotFound``."""
    credential = await read_credential(context.pool, context.secret_box, account_id)
    if credential is None:
        raise errors.NotFound(f"institution: there is no account {account_id}")
    return credential


@asynccontextmanager
async def open_for_operator(
    context: Operator, open_institution: OpenInstitution, account: InstitutionAccount
) -> AsyncGenerator[port.Institution]:
    institution = open_institution(account, await open_credential(context, account.id))
    try:
        yield institution
    finally:
        await institution.close()


async def list_ending(connection: Connection | Pool, now: datetime) -> list[EndingCertificate]:
    """List certificates that expire soon, soonest first."""
    return find_ending(await account_store.list_certificates(connection), now)


def read_no_file(path: str) -> str:
    """A ``ReadFile`` that can read none: a comparison that needs a file is refused then."""
    raise errors.BadRequest(f"{path}: cannot be read")


def _find_shared(
    account: InstitutionAccount, client: Credential, other: InstitutionAccount, others: Credential, read_file: ReadFile
) -> str | None:
    """As ``find_shared_member``, for secrets stored anywhere.

    Raises:
        BadRequest: The comparison needs a file that cannot be read.
    """
    shared = find_shared_member(account, client, other, others)
    # A client_id identifies the client, regardless of its secret.
    if shared or client.client_id or others.client_id or not are_at_one_institution(account, other):
        return shared
    try:
        client, others = _with_secret(client, read_file), _with_secret(others, read_file)
    except errors.BadRequest as error:
        rule = f"it is unknown whether {account.name} and {other.name} are one account"
        raise errors.BadRequest(f"client_secret_file: {rule}: {error.message}") from None
    return find_shared_member(account, client, other, others)


def _with_secret(client: Credential, read_file: ReadFile) -> Credential:
    if not client.client_secret_file:
        return client
    return structs.replace(client, client_secret=read_file(client.client_secret_file).strip(), client_secret_file="")


async def refuse_same_account(
    connection: Connection, box: SecretBox, account: InstitutionAccount, client: Credential, read_file: ReadFile
) -> None:
    """Refuse an account that equals an open one here, by key, number or client.

    Two accounts here that are one at the institution would count its money twice.
    """
    for other in await account_store.list_all(connection):
        if other.state == "closed" or other.id == account.id:
            continue
        others = await _read_known(connection, box, other)
        if (shared := _find_shared(account, client, other, others, read_file)) is not None:
            raise errors.BadRequest(f"{shared} is on the account {other.name}: a bank account is added once")


async def _read_known(connection: Connection, box: SecretBox, account: InstitutionAccount) -> Credential:
    try:
        return errors.require(await read_credential(connection, box, account.id), "a listed account has a row")
    except SealBroken:
        return Credential()  # the health check reports it; numbers and keys are compared all the same


async def try_permissions(
    context: Operator, open_institution: OpenInstitution, account: InstitutionAccount
) -> Sequence[port.PermissionTried]:
    """Try each permission of the credentials without moving money; record and return when their certificates expire."""
    institution = open_institution(account, await open_credential(context, account.id))
    tried = await _check(institution, account)
    async with write_alone(context.pool) as connection:
        await account_store.note_certificates(connection, account.id, institution.traits.certificates)
        why_sealed = await find_why_sealed(context, connection, account.id)
        credential, sending = None, None
        if context.sending_box is not None and not why_sealed:
            credential = await read_sending_credential(connection, context.sending_box, account.id)
        if credential is not None:
            sending = open_institution(account, credential)
            own = [structs.replace(one, part="sending") for one in sending.traits.certificates if one.part == "receiving"]
            await account_store.note_certificates(connection, account.id, own, of_sending=True)
    tried += _check_ends(institution.traits.certificates, context.clock.real_now())
    if why_sealed:
        tried.append(port.PermissionTried(name="send: key", is_given=False, explanation=why_sealed))
    if sending is not None:
        tried += [structs.replace(one, name=f"send: {one.name}") for one in await _check(sending, account)]
    return tried


async def _check(institution: port.Institution, account: InstitutionAccount) -> list[port.PermissionTried]:
    try:
        return list(await institution.check(account.keys))
    except port.InstitutionUnavailable as error:
        raise explain_to_operator(error) from error
    finally:
        await institution.close()


def explain_to_operator(error: port.InstitutionUnavailable, so: str = "") -> errors.Refusal | errors.ServiceUnavailable:
    """Return the error of an operator's verb: a temporary failure, or a permanently refused credential."""
    if error.is_refusal:
        return errors.BadRequest(f"the institution refuses the credential{so}: {error.reason}")
    return errors.ServiceUnavailable(f"the institution gave no answer{so}: {error.reason}")


def _check_ends(certificates: Sequence[AccountCertificate], now: datetime) -> list[port.PermissionTried]:
    return [
        port.PermissionTried(
            name=f"certificate {one.part}",
            is_given=one.ends_at > now,
            explanation=describe_end(one.ends_at, now) or f"ends at {one.ends_at.isoformat()}",
        )
        for one in certificates
    ]


class NoSender(port.Sender):
    """For an account whose sending credential this process cannot open: no other sender replaces it."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def send(self, pix: OutgoingPix) -> port.SendAnswer:
        return port.NotSent(reason=self._reason)

    async def read_sent(self, name: str, code: str | None = None, since: datetime | None = None) -> SentPix | None:
        raise port.InstitutionUnavailable(self._reason)

    async def close(self) -> None:
        return None


class OpenAccounts:
    """Opens accounts on first use; each has separate connections."""

    def __init__(
        self,
        pool: Pool,
        secret_box: SecretBox,
        open_institution: OpenInstitution,
        monotonic_s: Callable[[], float],
        sending_box: SecretBox | None = None,
    ) -> None:
        self._pool = pool
        self._secret_box = secret_box
        self._open_institution = open_institution
        self._monotonic_s = monotonic_s
        self._sending_box = sending_box
        self._fresh_until_s = float("-inf")
        self._accounts: dict[int, InstitutionAccount] = {}
        self._opened: dict[int, port.OpenAccount] = {}
        self._opening = asyncio.Lock()

    async def list_all(self) -> Sequence[InstitutionAccount]:
        await self._look()
        return list(self._accounts.values())

    async def find(self, account_id: int) -> port.OpenAccount | None:
        opened = await self.find_read(account_id)
        return None if opened is None or opened.account.state != "active" else opened

    async def find_receiving(self, account_id: int) -> port.OpenAccount | None:
        opened = await self.find_read(account_id)
        return None if opened is None or not opened.account.may_receive else opened

    async def find_read(self, account_id: int) -> port.OpenAccount | None:
        await self._look()
        account = self._accounts.get(account_id)
        if account is None or not account.is_read:
            return None
        opened = self._opened.get(account_id)
        if opened is not None and opened.account.revision == account.revision:
            return opened
        async with self._opening:
            return await self._open(account)

    async def _open(self, account: InstitutionAccount) -> port.OpenAccount | None:
        # Another caller may have opened it while this one waited for the lock.
        before = self._opened.get(account.id)
        if before is not None and before.account.revision == account.revision:
            return before
        credential = await read_credential(self._pool, self._secret_box, account.id)
        if credential is None:
            return None
        try:
            opened = port.OpenAccount(
                account=account,
                institution=self._open_institution(account, credential),
                own_sender=await self._open_sender(account),
            )
        except errors.BadRequest as error:
            # The operator must repair it, and no caller is at fault; callers do not learn which file is missing.
            _log.error("an account cannot be opened", institution=account.name, reason=error.message)
            raise errors.ServiceUnavailable("the account at the institution cannot be opened now") from error
        # Replaced before the old one is closed, so that new callers get this one.
        self._opened[account.id] = opened
        if before is not None:
            await _close(before)
        return opened

    async def _open_sender(self, account: InstitutionAccount) -> port.Sender | None:
        """Open the sender, if the account has a separate credential for it; ``None`` if it shares the other one."""
        sealed = await account_store.read_sealed(self._pool, account.id)
        if sealed is None or sealed.sending is None:
            return None
        if self._sending_box is None:
            return NoSender(_NO_KEY)
        try:
            credential = await read_sending_credential(self._pool, self._sending_box, account.id)
            return None if credential is None else self._open_institution(account, credential)
        except (SealBroken, errors.BadRequest) as error:
            # Incoming money is read all the same.
            reason = error.message if isinstance(error, errors.BadRequest) else _OTHER_KEY
            _log.error("what sends over an account cannot be opened", institution=account.name, reason=reason)
            return NoSender(reason)

    async def close(self) -> None:
        for opened in self._opened.values():
            await _close(opened)
        self._opened.clear()

    def forget(self) -> None:
        """Read the accounts again before the next use: a loss may have paused them."""
        self._fresh_until_s = float("-inf")

    async def _look(self) -> None:
        now_s = self._monotonic_s()
        if now_s >= self._fresh_until_s:
            found = await account_store.list_all(self._pool)
            self._accounts = {account.id: account for account in found}
            self._fresh_until_s = now_s + IN_FORCE_AFTER_S


async def _close(opened: port.OpenAccount) -> None:
    await opened.institution.close()
    if opened.own_sender is not None:
        await opened.own_sender.close()


def at_account(context: Context, account: InstitutionAccount, rail: Rail) -> Context:
    """Return the context for one account's reports: its own rail and abilities, and the process's everything else."""
    policy = structs.replace(context.policy, abilities=abilities_of(account), has_rail=True, ispb=UNNAMED_ISPB)
    at = context.with_port(ACCOUNT, account).with_port(CREDIT_SOURCE, AccountSource.of(account))
    return structs.replace(at, policy=policy, rail=rail)
