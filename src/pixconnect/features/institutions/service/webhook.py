"""Webhooks at an institution: operators register our address there and remove it again, and what comes to it wakes readers.

An earlier registration is saved, with the secret, before any call to the institution; an unknown outcome is queried, never
guessed.

A callback wakes the account's reader, in the worker that leases it. A false one gets the same answer and triggers
nothing. Concurrent callbacks for one account are passed on once; a lost one costs the time until the
next regular reading.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from msgspec import Struct

from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules import sweep as sweep_rules
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.institution import Institution, InstitutionUnavailable, PermissionTried
from pixconnect.features.institutions.service.account import find_account, found, refuse_use
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, explain_to_operator, open_for_operator
from pixconnect.features.institutions.tables import account as account_store
from pixconnect.features.institutions.tables.account import ActiveCallback
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Core, Operator, Port, write_alone
from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.platform.base import errors
from pixconnect.platform.notifier import CALLBACK_CHANNEL, EventNotifier
from pixconnect.platform.pool import Connection
from pixconnect.platform.shared_look import SharedLook

_URL_MAX: Final = 200  # Sicoob's maximum


class RegisteredWebhook(Struct, frozen=True, kw_only=True):
    """The institution's webhook of a key, or of the whole account; ``url`` is ``None`` without one."""

    key: str | None
    url: str | None
    whose: sweep_rules.Whose | None

    @property
    def is_ours(self) -> bool:
        return self.whose in ("ours", "outdated")

    @property
    def is_foreign(self) -> bool:
        return self.whose in ("another_installation", "other")


class RegisteredWebhooks(Struct, frozen=True, kw_only=True):
    account: InstitutionAccount
    address: str | None  # ours; ``None`` until a secret is made
    found: Sequence[RegisteredWebhook]
    kept: Sequence[sweep_rules.KeptWebhook]  # the registrations that ours replaced

    @property
    def whose(self) -> sweep_rules.Whose | None:
        """The owner of all of them together: ours only if each is, or one if an account may have any number."""
        if any(each.key is None and each.whose == "ours" for each in self.found):
            return "ours"
        for each in self.found:
            if each.whose != "ours":
                return each.whose
        return "ours"


_NOBODYS: Final = sweep_rules.digest_secret("")


async def read_webhooks(context: Operator, open_institution: OpenInstitution, name: str) -> RegisteredWebhooks:
    """Read the registrations; ``ServiceUnavailable`` if the institution gives no answer."""
    async with _open(context, open_institution, name) as (account, institution):
        return await _read(context, account, institution)


async def check_keys_pay(context: Operator, open_institution: OpenInstitution, name: str) -> None:
    """Check that each key of an account may pay.

    Raises:
        BadRequest: The institution would refuse to pay from a key, since that has no webhook.
        ServiceUnavailable: The institution gives no answer.
    """
    account = await find_account(context.pool, name)
    # Others are not called: lowering an allowance must not depend on an answer.
    if not read_profile(account.profile_name).account.pays_from_webhook_keys:
        return
    there = await read_webhooks(context, open_institution, name)
    if silent := ", ".join(each.key for each in there.found if each.key is not None and each.url is None):
        raise errors.BadRequest(
            f"keys: {silent} cannot pay, since the institution wants a webhook for each key that pays: "
            f"pixconnect institution webhook set {name}"
        )


async def set_webhooks(
    context: Operator, open_institution: OpenInstitution, name: str, *, replaces: bool = False, has_new_secret: bool = False
) -> RegisteredWebhooks:
    """Register our address for each key.

    Args:
        replaces: Also replace another registered address, which is saved.
        has_new_secret: Make another secret; calls to the earlier address are refused.

    Raises:
        BadRequest: Another address is registered, or an institution would not call ours.
        ServiceUnavailable: The institution refused, or gave no answer.
    """
    async with _open(context, open_institution, name) as (account, institution):
        before = await _read(context, account, institution)
        foreign = [each for each in before.found if each.is_foreign and institution.traits.has_webhook_per_key]
        if foreign and not replaces:
            named = "; ".join(f"{each.key}: {each.url}" for each in foreign)
            raise errors.BadRequest(f"webhook: is not ours ({named}); --replace saves it and registers ours")
        kept = {each.key or "": each.url or "" for each in foreign}
        async with write_alone(context.pool) as connection:
            address = await _make_secret(context, connection, account, is_new=has_new_secret)
            check_address(address, account)
            for key, url in kept.items():
                one = sweep_rules.KeptWebhook(institution_id=account.id, key=key, url=url, kept_at=context.clock.real_now())
                await account_store.KEPT.put(connection, one)
            facts = dict(keys=account.keys, kept=kept, new_secret=has_new_secret)
            await audit.record(context, connection, "institution webhook set", f"institution {name}", after=facts)
        # Called after the commit: if killed at any call, we know both the registered secret and the replaced address.
        failures = await _register(institution, before, address)
        after = await _read(context, account, institution)
    if after.whose != "ours":
        raise errors.ServiceUnavailable(f"webhook: is not registered everywhere: {'; '.join(failures)}")
    return after


async def restore_webhooks(context: Operator, open_institution: OpenInstitution, name: str) -> RegisteredWebhooks:
    """Restore the registrations that ours replaced, or none; an address that is not ours stays."""
    async with _open(context, open_institution, name) as (account, institution):
        before = await _read(context, account, institution)
        async with write_alone(context.pool) as connection:
            facts = dict(restored={each.key: each.url for each in before.kept})
            await audit.record(context, connection, "institution webhook restore", f"institution {name}", after=facts)
        failures = await _put_back(institution, before)
        # The present registration counts, not the answer to each call.
        after = await _read(context, account, institution)
        if any(each.is_ours for each in after.found):
            raise errors.ServiceUnavailable(f"webhook: ours is still registered: {'; '.join(failures)}")
        async with write_alone(context.pool) as connection:
            # Only once it is registered again: if killed before this, the same verb does it again.
            await account_store.forget_kept(connection, account.id)
        return await _read(context, account, institution)


async def withdraw_webhooks(context: Operator, open_institution: OpenInstitution, name: str) -> str | None:
    """Restore the earlier registrations before an unreferenced account is removed; return why that failed.

    Raises:
        BadRequest: The account is referenced.
    """
    async with context.pool.acquire() as connection:
        account = found(await account_store.find_named(connection, name), name)
        # Before the call to the institution: an account that stays here keeps its webhook there.
        await refuse_use(connection, account, context.clock.real_now())
        if account.state == "closed" or await account_store.find_callback(connection, account.id) is None:
            return None
    try:
        await restore_webhooks(context, open_institution, name)
    except errors.ServiceUnavailable as error:
        return error.message
    return None


def judge_webhooks(there: RegisteredWebhooks) -> list[PermissionTried]:
    costs = "payments are seen when the account is read, not before"
    profile = read_profile(there.account.profile_name)
    if profile.account.pays_from_webhook_keys:
        costs += f"; {profile.title} sends nothing from a key without one"
    explanations: dict[sweep_rules.Whose | None, str] = {
        "ours": "",
        "outdated": "it is an outdated address from us, which is refused: institution webhook set",
        "another_installation": "another installation has it: is this account open there too?",
        "other": f"it is another program's; {costs}",
        None: f"there is none; {costs}: institution webhook set",
    }
    names = ["webhook" if each.key is None else f"webhook {each.key}" for each in there.found]
    return [
        PermissionTried(name=name, is_given=each.whose == "ours", explanation=explanations[each.whose])
        for name, each in zip(names, there.found, strict=True)
    ]


async def _register(institution: Institution, there: RegisteredWebhooks, address: str) -> list[str]:
    """Register our address; return why some of it may not have been done."""
    failures = list[str]()
    if institution.traits.has_webhook_per_key:
        for each in there.found:
            if each.url != address:
                failures += await _attempt(institution.set_webhook(each.key or "", address))
        return failures
    # Ours is registered before an older one is removed: in between the account is called twice, but never missed.
    if all(each.url != address for each in there.found):
        failures += await _attempt(institution.set_webhook("", address))
    for each in there.found:
        if each.is_ours and each.url not in (None, address):
            failures += await _attempt(institution.remove_webhook("", each.url or ""))
    return failures


async def _put_back(institution: Institution, there: RegisteredWebhooks) -> list[str]:
    failures, kept = list[str](), {each.key: each.url for each in there.kept}
    for each in there.found:
        url = kept.get(each.key or "")
        if url is not None and (each.is_ours or each.url is None):
            failures += await _attempt(institution.set_webhook(each.key or "", url))
        elif each.is_ours and each.url is not None:
            failures += await _attempt(institution.remove_webhook(each.key or "", each.url))
    return failures


async def _attempt(call: Awaitable[None]) -> list[str]:
    # Refused or unknown: the present state is read again, and returned with the reason.
    try:
        await call
    except InstitutionUnavailable as error:
        return [error.reason]
    return []


async def _read(context: Operator, account: InstitutionAccount, institution: Institution) -> RegisteredWebhooks:
    try:
        listed = await institution.list_webhooks()
    except InstitutionUnavailable as error:
        raise explain_to_operator(error) from error
    async with context.pool.acquire() as connection:
        callback = await account_store.find_callback(connection, account.id)
        kept = await account_store.list_kept_webhooks(connection, account.id)
    # Without one of our secrets no registration is ours, but a restored database may lack an older secret.
    ours = _address(context, account, "" if callback is None else _open_secret(context, callback))
    there = [RegisteredWebhook(key=each.key, url=each.url, whose=sweep_rules.judge_address(each.url, ours)) for each in listed]
    if institution.traits.has_webhook_per_key:
        missing = set(account.keys) - {each.key for each in there}
        there += [RegisteredWebhook(key=key, url=None, whose=None) for key in sorted(missing)]
    elif not any(each.is_ours for each in there):
        there.append(RegisteredWebhook(key=None, url=None, whose=None))
    return RegisteredWebhooks(account=account, address=None if callback is None else ours, found=there, kept=kept)


async def _make_secret(context: Operator, connection: Connection, account: InstitutionAccount, *, is_new: bool) -> str:
    """Return our address, with the account's secret or a new one."""
    callback = await account_store.find_callback(connection, account.id)
    if callback is not None and not is_new:
        return _address(context, account, _open_secret(context, callback))
    secret = context.entropy.token(sweep_rules.SECRET_LENGTH)
    callback = sweep_rules.CallbackSecret(
        institution_id=account.id,
        digest=sweep_rules.digest_secret(secret),
        secret_sealed=context.secret_box.seal(secret.encode(), sweep_rules.callback_seal(account.id)),
        made_at=context.clock.real_now(),
    )
    await account_store.CALLBACK.put(connection, callback)
    return _address(context, account, secret)


def _address(context: Operator, account: InstitutionAccount, secret: str) -> str:
    return f"{context.policy.callback_base_url}{sweep_rules.PATH}{account.name}/{secret}"


def _open_secret(context: Operator, callback: sweep_rules.CallbackSecret) -> str:
    return context.secret_box.open(callback.secret_sealed, sweep_rules.callback_seal(callback.institution_id)).decode()


def check_address(address: str, account: InstitutionAccount) -> None:
    if not address.startswith("https://") and account.environment != "counterpart":
        raise errors.BadRequest("PIXCONNECT_CALLBACK_BASE_URL: must be https: institutions call no other address")
    if len(address) > _URL_MAX:
        raise errors.BadRequest(f"PIXCONNECT_CALLBACK_BASE_URL: is too long: some institutions take {_URL_MAX} characters")


@asynccontextmanager
async def _open(
    context: Operator, open_institution: OpenInstitution, name: str
) -> AsyncGenerator[tuple[InstitutionAccount, Institution]]:
    account = await find_account(context.pool, name)
    async with open_for_operator(context, open_institution, account) as institution:
        yield account, institution


class Callbacks:
    """The callbacks of all accounts, as known to one process."""

    def __init__(self, context: Core) -> None:
        self._context = context
        self._callbacks: dict[str, ActiveCallback] = {}
        self._fresh_until_s = float("-inf")
        # However many calls come, the table is read once a second.
        self._looks = SharedLook(self._look, "look at callbacks")
        self._notifiers: dict[str, EventNotifier] = {}

    async def take(self, name: str, secret: str, body: bytes, *, has_certificate: bool) -> bool:
        """Wake an account's reader, if the secret is the account's; return whether it is.

        Raises:
            Forbidden: The account's institution presents a client certificate, and this caller did not.
        """
        if self._context.clock.monotonic_s() >= self._fresh_until_s:
            await self._looks.look()
        callback = self._callbacks.get(name)
        is_true = hmac.compare_digest(sweep_rules.digest_secret(secret), _NOBODYS if callback is None else callback.digest)
        if callback is None or not is_true:
            return False
        # After the secret: a caller without it learns nothing about the account.
        if callback.needs_certificate and not has_certificate:
            raise errors.Forbidden("client certificate: this address requires one")
        payload = " ".join([str(callback.institution_id), *sweep_rules.choose_paces(body)])
        notifier = self._notifiers.setdefault(
            payload, EventNotifier(self._context.pool, sweep_rules.APART_S, CALLBACK_CHANNEL, payload)
        )
        notifier.notify()
        return True

    async def _look(self) -> None:
        now_s = self._context.clock.monotonic_s()
        self._callbacks = {callback.name: callback for callback in await account_store.list_callbacks(self._context.pool)}
        self._fresh_until_s = now_s + IN_FORCE_AFTER_S


CALLBACKS: Final = Port[Callbacks]("callbacks of institutions")
