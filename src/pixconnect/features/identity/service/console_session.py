"""Signing in to the console, its sessions, and operators' accounts.

Sessions are rows; the browser holds a token, and we store only its hash. An operator signs in with a name, a password and a
second factor; a holder with a client's credentials. Guessing is limited as for tokens: ten failures a minute for an address.
Wrong passwords of one name have no limit: a stranger could use it up to lock an operator out, and passwords have 142 random
bits. Codes have six digits: ten wrong ones within a day, with the right password, lock the account until `operator unlock`. The
answer does not reveal that, because it would confirm the password.

A session of a client is valid for as long as a token would be: a client that is disabled, deleted, or has a new secret has
none. All instants are real time.

The command line creates and removes accounts of the console's operators, and shows their secrets once.
"""

import asyncio
import base64
import hashlib
import hmac
from contextlib import suppress
from datetime import datetime
from functools import cache
from typing import Final

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY
from msgspec import Struct, structs
from pyotp.totp import TOTP

from pixconnect.features.identity.service import token_issuer
from pixconnect.features.identity.service.token_issuer import AddressLimited, TokenRequest
from pixconnect.features.identity.tables import access as access_store
from pixconnect.features.identity.tables import console as console_store
from pixconnect.features.identity.tables.console import ConsoleOperator, ConsoleSession, FoundSession
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.kernel.rules import access as access_rules
from pixconnect.platform.base import errors
from pixconnect.platform.base.entropy import SealBroken
from pixconnect.platform.flow.shares import FairSemaphore
from pixconnect.platform.pool import Connection

_PASSWORD_LENGTH: Final = 24  # characters, of 62 letters and digits: 142 bits
_TOTP_LENGTH: Final = 20  # bytes, as RFC 4226 recommends
_RECOVERY_CODE_LENGTH: Final = 16
_STEP_S: Final = 30
_STEPS_EITHER_WAY: Final = 1  # a phone's clock may be half a minute off

# 64 MiB for each check of a password: a thief of the table pays that for each guess.
_hasher = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


class IssuedOperator(Struct, frozen=True, kw_only=True):
    """An account with its secrets, which are shown once and never again."""

    operator: ConsoleOperator
    password: str
    totp_secret: str
    totp_url: str  # the address in an authenticator's QR code
    recovery_codes: tuple[str, ...]  # each replaces the second factor once


async def add_operator(context: Operator, name: str, role: access_rules.Role) -> IssuedOperator:
    access_rules.check_operator_name(name)
    issued = await _issue(context, name, role)
    async with write_alone(context.pool) as connection:
        if not await console_store.insert_operator(connection, issued.operator):
            raise errors.BadRequest(f"name: there is an operator {name} already; `operator reset` gives new secrets")
        await audit.record(context, connection, "operator add", f"operator {name}", after=dict(role=role))
    return issued


async def reset_operator(context: Operator, name: str) -> IssuedOperator:
    """Replace an account's password, second factor and recovery codes, and end its sessions."""
    # The hash takes long, so it is made before anything is locked; the role is that of the row.
    issued = await _issue(context, name, "reader")
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, name)
        after = structs.replace(
            issued.operator, role=before.role, created_at=before.created_at, reset_at=issued.operator.created_at
        )
        await console_store.update_operator(connection, after)
        # A thief of the former secrets may be signed in with them.
        await console_store.delete_sessions_of(connection, name)
        await audit.record(context, connection, "operator reset", f"operator {name}")
    return structs.replace(issued, operator=after)


async def unlock_operator(context: Operator, name: str) -> ConsoleOperator:
    """Accept codes again for a locked account; its password, which a stranger may know, stays."""
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, name)
        await console_store.note_code(connection, after := structs.replace(before, wrong_codes_at=()))
        was = dict(wrong_codes_at=before.wrong_codes_at)
        await audit.record(context, connection, "operator unlock", f"operator {name}", before=was)
    return after


async def remove_operator(context: Operator, name: str) -> ConsoleOperator:
    """Remove an account, and end its sessions. Its acts stay in the audit."""
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, name)
        await console_store.delete_operator(connection, name)
        await audit.record(context, connection, "operator remove", f"operator {name}", before=dict(role=before.role))
    return before


async def list_operators(context: Operator) -> list[ConsoleOperator]:
    return await console_store.list_operators(context.pool)


async def _issue(context: Operator, name: str, role: access_rules.Role) -> IssuedOperator:
    text = context.entropy.token(_PASSWORD_LENGTH)
    secret = base64.b32encode(context.entropy.octets(_TOTP_LENGTH)).decode()
    texts = [context.entropy.token(_RECOVERY_CODE_LENGTH) for _ in range(access_rules.RECOVERY_CODES_COUNT)]
    codes = tuple("-".join(each[at : at + 4] for at in range(0, _RECOVERY_CODE_LENGTH, 4)) for each in texts)
    operator = ConsoleOperator(
        name=name,
        role=role,
        password_hash=await asyncio.to_thread(_hasher.hash, text),
        totp_sealed=context.secret_box.seal(secret.encode(), about_totp(name)),
        totp_step=0,
        recovery_hashes=tuple(hash_recovery_code(name, code) for code in codes),
        created_at=context.clock.real_now(),
        reset_at=None,
    )
    return IssuedOperator(
        operator=operator,
        password=text,
        totp_secret=secret,
        totp_url=TOTP(secret).provisioning_uri(name=name, issuer_name=context.policy.institution_name),
        recovery_codes=codes,
    )


def about_totp(name: str) -> str:
    return f"console_operator:{name}"


def hash_recovery_code(name: str, code: str) -> bytes:
    """Hash a recovery code: 95 random bits need no slow hash. Hyphens only ease reading, and are ignored."""
    return hashlib.sha256(f"{name}:{code.replace('-', '').strip()}".encode("utf-8", "surrogatepass")).digest()


async def _lock(connection: Connection, name: str) -> ConsoleOperator:
    return errors.found(await console_store.lock_operator(connection, name), f"name: there is no operator {name}")


_log = structlog.get_logger(__name__)

WAITING_MAX: Final = 32  # maximum of waiting sign-ins: a password check takes 64 MiB, so only one runs at a time
LISTED_MAX: Final = 200
_TOKEN_LENGTH: Final = 43
_TEXT_LENGTH_MAX: Final = 1024
_SANDBOX_NAME: Final = "sandbox"
_REFUSED: Final = "name, password or code: one of them is wrong"


class OperatorSignIn(Struct, frozen=True, kw_only=True):
    name: str
    password: str
    code: str  # the code of the second factor, or a recovery code
    address: str  # the address whose failures are counted, found by ``client_address``


class NewSession(Struct, frozen=True, kw_only=True):
    token: str  # for the browser's cookie; it is shown nowhere else
    visitor: access_rules.Visitor


class SignIn:
    """Sign-in for one process: one at a time."""

    def __init__(self, context: Operator) -> None:
        self._context = context
        self._semaphore = FairSemaphore(1, waiting_max=WAITING_MAX, what="sign-ins")

    async def operator(self, asked: OperatorSignIn) -> NewSession:
        """Sign in an operator.

        Raises:
            RateLimited: The address has failed too often in the last minute.
            ServiceUnavailable: Too many wait.
        """
        context = self._context
        async with self._semaphore.hold(asked.address), write_alone(context.pool) as connection:
            verdict = await _judge_operator(context, connection, asked)
            if isinstance(verdict, ConsoleOperator):
                return await _begin(context, connection, _session_of(context, operator_name=verdict.name))
        # Raised only now: inside the transaction it would roll back the counted failure.
        raise verdict

    async def client(self, asked: TokenRequest) -> NewSession:
        """Sign in a holder by the credentials of one of its clients; refuses as ``operator`` does."""
        token_issuer.check_shape(asked)
        context = self._context
        async with self._semaphore.hold(asked.address), write_alone(context.pool) as connection:
            verdict = await token_issuer.judge(context, connection, asked)
            if isinstance(verdict, access_rules.Client):
                session = _session_of(context, client_id=verdict.client_id)
                # Up to a second ahead, as its tokens are, or a new secret would not work.
                began_at = access_rules.issue_at(session.created_at, verdict.tokens_from)
                return await _begin(context, connection, structs.replace(session, created_at=began_at))
        raise verdict

    async def link(self, token: str) -> NewSession:
        """Sign in the first user of a link, as the operator of a sandbox; refuses as ``operator`` does."""
        context = self._context
        if not context.policy.is_sandbox:
            raise errors.Forbidden("signing in by a link requires a sandbox")
        async with write_alone(context.pool) as connection:
            if await console_store.use_link(connection, _hash(token), context.clock.real_now()) is None:
                raise errors.Unauthorized("this link was used already, or its time is over")
            return await _begin(context, connection, _session_of(context))


async def make_link(context: Operator) -> str:
    """Make a link that signs in one browser, once; returns its token."""
    if not context.policy.is_sandbox:
        raise errors.Forbidden("signing in by a link requires a sandbox")
    token, ends_at = context.entropy.token(_TOKEN_LENGTH), context.clock.real_now() + access_rules.LINK_LASTS
    async with write_alone(context.pool) as connection:
        await console_store.insert_link(connection, _hash(token), ends_at)
        await audit.record(context, connection, "operator link", "console", after=dict(expires_at=ends_at))
    return token


async def find_session(context: Operator, token: str, *, is_used: bool = True) -> access_rules.Visitor | None:
    """Find the visitor with this token; ``None`` if it is no longer valid. Using it extends the session."""
    if len(token) != _TOKEN_LENGTH:
        return None
    now = context.clock.real_now()
    async with context.pool.acquire() as connection:
        found = await console_store.find_session(connection, _hash(token), now)
        if found is None:
            return None
        session = found.session
        if is_used and now - session.seen_at >= access_rules.SEEN_EVERY:
            ends_at = access_rules.end_session_at(session.created_at, now)
            await console_store.slide_session(connection, session.id, now, ends_at)
    return _visitor(found, token)


async def list_sessions(context: Operator, visitor: access_rules.Visitor) -> list[ConsoleSession]:
    """List the valid sessions: an operator sees all, a holder's visitor those of the visitor's client."""
    client_id = visitor.name if visitor.kind == "holder" else None
    return await console_store.list_sessions(context.pool, context.clock.real_now(), client_id, LISTED_MAX)


async def revoke_session(context: Operator, visitor: access_rules.Visitor, session_id: int) -> None:
    """End a session: one's own, one of the own client, or an operator any."""
    if not visitor.may_act and session_id != visitor.session_id:
        raise errors.Forbidden("a reader changes nothing")
    async with write_alone(context.pool) as connection:
        client_id = visitor.name if visitor.kind == "holder" else None
        ended = await console_store.delete_session(connection, session_id, client_id)
        ended = errors.found(ended, "there is no such session")
        acting, whose = context.acting_as(visitor.audit_name), ended.operator_name or ended.client_id
        await audit.record(acting, connection, "console sign-out", f"session {session_id}", before=dict(of=whose))


async def _judge_operator(context: Operator, connection: Connection, asked: OperatorSignIn) -> ConsoleOperator | errors.Refusal:
    by_address = token_issuer.failure_subject("address", asked.address)
    left_s = await access_store.lock_subject(connection, access_store.ADDRESS_LOCKS, by_address)
    if left_s is not None:
        return AddressLimited(left_s)
    is_of_form = len(asked.password) <= _TEXT_LENGTH_MAX and len(asked.code) <= _TEXT_LENGTH_MAX
    is_name = access_rules.is_operator_name(asked.name)
    found = await console_store.lock_operator(connection, asked.name) if is_name and is_of_form else None
    # An unknown name costs as much time as a known one.
    sent = asked.password[:_TEXT_LENGTH_MAX]
    is_right = await asyncio.to_thread(_is_password, found and found.password_hash, sent)
    if found is not None and is_right and not found.is_locked:
        if (after := _use_code(context, found, asked.code)) is not None:
            await console_store.note_code(connection, after)
            return after
        await _count_wrong_code(context, connection, found)
    named = found and found.name  # an unknown name is not logged: it may be a password in the wrong field
    _log.warning("sign-in refused", operator=named, address=asked.address, is_password_right=is_right)
    await access_store.append_failures(connection, [by_address])
    return errors.Unauthorized(_REFUSED)


async def _count_wrong_code(context: Operator, connection: Connection, operator: ConsoleOperator) -> None:
    now = context.clock.real_now()
    counted = [each for each in (*operator.wrong_codes_at, now) if each > now - access_rules.WRONG_CODE_COUNTS]
    after = structs.replace(operator, wrong_codes_at=tuple(counted))
    await console_store.note_code(connection, after)
    if after.is_locked:
        _log.critical("an operator's account is locked: ten wrong codes came with its password", operator=operator.name)


def _use_code(context: Operator, operator: ConsoleOperator, code: str) -> ConsoleOperator | None:
    """Use up a code and return its operator; ``None`` if it is invalid."""
    # A second factor whose key was lost opens nothing: recovery codes still do.
    with suppress(SealBroken):
        secret = context.secret_box.open(operator.totp_sealed, about_totp(operator.name)).decode()
        step = _find_totp_step(secret, code.strip(), context.clock.real_now(), operator.totp_step)
        if step is not None:
            return structs.replace(operator, totp_step=step)
    used = hash_recovery_code(operator.name, code)
    left = tuple(each for each in operator.recovery_hashes if each != used)
    return structs.replace(operator, recovery_hashes=left) if len(left) < len(operator.recovery_hashes) else None


def _session_of(context: Operator, *, operator_name: str | None = None, client_id: str | None = None) -> ConsoleSession:
    now = context.clock.real_now()
    return ConsoleSession(
        id=0,
        kind="operator" if operator_name else "holder" if client_id else "sandbox",
        operator_name=operator_name,
        client_id=client_id,
        created_at=now,
        seen_at=now,
        expires_at=access_rules.end_session_at(now, now),
    )


async def _begin(context: Operator, connection: Connection, session: ConsoleSession) -> NewSession:
    now, token = context.clock.real_now(), context.entropy.token(_TOKEN_LENGTH)
    await console_store.insert_session(connection, session, _hash(token))
    await console_store.forget_old(connection, now)
    found = await console_store.find_session(connection, _hash(token), now)
    visitor = _visitor(errors.require(found, "a session that begins is good"), token)
    acting = context.acting_as(visitor.audit_name)
    await audit.record(acting, connection, "console sign-in", f"session {visitor.session_id}")
    return NewSession(token=token, visitor=visitor)


def _visitor(found: FoundSession, token: str) -> access_rules.Visitor:
    session, role = found.session, found.role or "operator"
    own_scopes = access_rules.ALL_SCOPES if role == "operator" else access_rules.READING_SCOPES
    return access_rules.Visitor(
        session_id=session.id,
        kind=session.kind,
        name=session.operator_name or session.client_id or _SANDBOX_NAME,
        role=role,
        holder_id=found.holder_id,
        scopes=frozenset(found.scopes) if session.kind == "holder" else own_scopes,
        csrf_token=hashlib.sha256(f"csrf:{token}".encode()).hexdigest(),
        created_at=session.created_at,
        expires_at=session.expires_at,
    )


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def _is_password(password_hash: str | None, password: str) -> bool:
    """Takes about a tenth of a second, also without a hash, which is never right."""
    try:
        is_right = _hasher.verify(password_hash or _dummy_hash(), password)
    # A lone surrogate, which no form can send honestly, has no octets.
    except (VerificationError, InvalidHashError, UnicodeEncodeError):
        return False
    return is_right and password_hash is not None


@cache
def _dummy_hash() -> str:
    return _hasher.hash("of nobody")


def _find_totp_step(secret: str, code: str, now: datetime, after_step: int) -> int | None:
    """Find the 30 s step of a code, if it is a present one; never a used or earlier one."""
    totp, step = TOTP(secret), int(now.timestamp()) // _STEP_S
    for candidate in range(max(after_step + 1, step - _STEPS_EITHER_WAY), step + _STEPS_EITHER_WAY + 1):
        if hmac.compare_digest(code.encode("utf-8", "surrogatepass"), totp.at(candidate * _STEP_S).encode()):
            return candidate
    return None
