"""The accounts of those who operate the console, made and removed on the command line, where their secrets are shown once."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Final

from msgspec import Struct, structs

from pixconnect.domain.frame import errors
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.domain.identity import console
from pixconnect.domain.identity.console import RECOVERY_CODES_COUNT, Role
from pixconnect.foundation import password
from pixconnect.foundation.pool import Connection
from pixconnect.store.identity import console as console_store
from pixconnect.store.identity.console import ConsoleOperator
from pixconnect.usecases.frame import audit
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.frame.lone_write import write_alone

_PASSWORD_LENGTH: Final = 24
"""Characters, of 62 letters and digits: 142 bits."""
_TOTP_LENGTH: Final = 20
"""Bytes, as RFC 4226 recommends."""
_RECOVERY_CODE_LENGTH: Final = 16


class IssuedOperator(Struct, frozen=True, kw_only=True):
    """An account with its secrets, which are shown once and never again."""

    operator: ConsoleOperator
    password: str
    totp_secret: str
    totp_url: str
    """What an authenticator reads from a QR code."""
    recovery_codes: tuple[str, ...]
    """Each signs in once in place of the second factor."""


async def add_operator(context: Operator, name: str, role: Role) -> IssuedOperator:
    """Make an account."""
    console.check_operator_name(name)
    issued = await _issue(context, name, role)
    async with write_alone(context.pool) as connection:
        if not await console_store.insert_operator(connection, issued.operator):
            raise errors.BadRequest(f"name: there is an operator {name} already; `operator reset` gives new secrets")
        await audit.record(context, connection, "operator add", _audited(name), after=dict(role=role))
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
        # Whoever had the secrets of before may be signed in by them.
        await console_store.delete_sessions_of(connection, name)
        await audit.record(context, connection, "operator reset", _audited(name))
    return structs.replace(issued, operator=after)


async def remove_operator(context: Operator, name: str) -> ConsoleOperator:
    """Remove an account, and end its sessions. What it did stays in the audit."""
    async with write_alone(context.pool) as connection:
        before = await _lock(connection, name)
        await console_store.delete_operator(connection, name)
        await audit.record(context, connection, "operator remove", _audited(name), before=dict(role=before.role))
    return before


async def list_operators(context: Operator) -> list[ConsoleOperator]:
    async with context.pool.acquire() as connection:
        return await console_store.list_operators(connection)


async def _issue(context: Operator, name: str, role: Role) -> IssuedOperator:
    text, secret = (
        context.entropy.token(_PASSWORD_LENGTH),
        base64.b32encode(context.entropy.octets(_TOTP_LENGTH)).decode(),
    )
    codes = tuple(_recovery_code(context.entropy) for _ in range(RECOVERY_CODES_COUNT))
    operator = ConsoleOperator(
        name=name,
        role=role,
        password_hash=await asyncio.to_thread(password.hash_password, text),
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
        totp_url=password.totp_url(secret, name, context.policy.institution_name),
        recovery_codes=codes,
    )


def about_totp(name: str) -> str:
    """What the secret of an operator's second factor is sealed about."""
    return f"console_operator:{name}"


def hash_recovery_code(name: str, code: str) -> bytes:
    """As it is kept: 95 random bits need no slow hash. Hyphens, which only help to read it, count for nothing."""
    return hashlib.sha256(f"{name}:{code.replace('-', '').strip()}".encode("utf-8", "surrogatepass")).digest()


def _recovery_code(entropy: Entropy) -> str:
    text = entropy.token(_RECOVERY_CODE_LENGTH)
    return "-".join(text[at : at + 4] for at in range(0, _RECOVERY_CODE_LENGTH, 4))


async def _lock(connection: Connection, name: str) -> ConsoleOperator:
    return errors.found(await console_store.lock_operator(connection, name), f"name: there is no operator {name}")


def _audited(name: str) -> str:
    return f"operator {name}"
