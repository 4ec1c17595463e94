"""Makes every call of receiving once, in an institution's tests or at a counterpart, and reports differences.

It opens one charge and removes it again, and returns one cent of a received Pix, under one id twice, if refunds are permitted
and such a Pix exists. It registers nothing and records no money: credits and returns are read into the books as usual. The
audit has the names before anything is sent, so that the remains of a crash are known.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from msgspec import Struct, structs

from pixconnect.features.allowances import tables as allowance_store
from pixconnect.features.institutions.profiles.profile import InstitutionProfile, read_profile
from pixconnect.features.institutions.rules import institution as port
from pixconnect.features.institutions.rules import recording as recordings
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.sweep import MalformedItem
from pixconnect.features.institutions.service.account import find_account, name_account
from pixconnect.features.institutions.service.open_accounts import OpenInstitution, open_credential
from pixconnect.kernel.flows import audit
from pixconnect.kernel.flows.context import Operator, write_alone
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import to_day

_LIFETIME_S: Final = 3600
_RETURNED_CENTS: Final = 1
_NAME_LENGTH: Final = 32
_NOBODYS: Final = "E00000000202001010000rehearsal00"  # a well-formed end-to-end id that no Pix has

Walked = AsyncGenerator[recordings.RehearsedStep]


class RehearsalTerms(Struct, frozen=True, kw_only=True):
    """The names and terms of one rehearsal; the same plan makes the same calls."""

    profile: InstitutionProfile
    keys: Sequence[str]
    txid: str
    refund_id: str
    at: datetime
    returns: bool  # whether a cent may be returned

    @property
    def terms(self) -> port.ChargeTerms:
        # If an institution's tests pay small charges automatically, ours is larger, since it is removed.
        cents = self.profile.homologation.paid_cents_max + 1
        return port.ChargeTerms(
            txid=self.txid,
            key=self.keys[0],
            amount_cents=cents,
            lifetime_s=max(_LIFETIME_S, self.profile.account.lifetime_min_s),
        )


async def rehearse(
    context: Operator, open_institution: OpenInstitution, taken: Sequence[recordings.TakenExchange], name: str
) -> recordings.Rehearsal:
    """Run an account's operations.

    Args:
        open_institution: Its connections record their exchanges in ``taken``.

    Raises:
        BadRequest: The account is of production, is paused, or has no key.
        NotFound: The account does not exist.
    """
    async with context.pool.acquire() as connection:
        account = await find_account(connection, name)
        allowance = await allowance_store.read(connection, account.id)
    check_place(account)
    plan = RehearsalTerms(
        profile=read_profile(account.profile_name),
        keys=account.keys,
        txid=context.entropy.token(_NAME_LENGTH),
        refund_id=context.entropy.token(_NAME_LENGTH),
        at=context.clock.real_now(),
        returns=allowance.refunds_day_cents >= _RETURNED_CENTS,
    )
    async with write_alone(context.pool) as connection:
        names = dict(txid=plan.txid, refund_id=plan.refund_id if plan.returns else None)
        await audit.record(context, connection, "institution rehearse", name_account(name), after=names)
    credential = await open_credential(context, account.id)
    institution = open_institution(account, credential)
    try:
        steps = await walk(institution, plan)
    finally:
        await institution.close()
    redaction = recordings.Redaction(account, credential, taken)
    exchanges = [redaction.redact_exchange(each) for each in taken]
    steps += recordings.judge_exchanges(plan.profile, exchanges)
    recording = recordings.RehearsalRecording(
        kind=account.kind,
        profile=plan.profile.name,
        environment=account.environment,
        options=sorted(account.options),
        made_at=plan.at,
        key=recordings.redact_key(0),
        txid=plan.txid,
        refund_id=plan.refund_id,
        refunds=plan.returns,
        steps=[(redaction.redact_text(each.step), each.outcome, redaction.redact_text(each.text)) for each in steps],
        exchanges=exchanges,
    )
    return recordings.Rehearsal(steps=steps, recording=recording)


def check_place(account: InstitutionAccount) -> None:
    """Refuse if a rehearsal would move real money, or could not begin."""
    if account.environment == "production":
        raise errors.BadRequest(f"name: the account {account.name} is of production, where nothing is rehearsed")
    if account.state != "active":
        raise errors.BadRequest(f"name: the account {account.name} is {account.state}: no calls are made to it")
    if not account.keys:
        raise errors.BadRequest(f"keys: the account {account.name} has none, so no charge can be rehearsed")


async def walk(institution: port.Institution, plan: RehearsalTerms) -> list[recordings.RehearsedStep]:
    """Take one step after the other, so that a recording can be replayed in order; a failure does not stop later steps."""
    steps = list[recordings.RehearsedStep]()
    for name, act in _ACTS.items():
        try:
            async for step in act(institution, plan):
                steps.append(step)
        except port.InstitutionUnavailable as error:
            steps.append(_differs(name, error.reason))
    return steps


async def _check(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    for tried in await institution.check(plan.keys):
        may_send = tried.name == "send"
        is_wrong = tried.is_given is may_send
        yield _judge(f"permission {tried.name}", tried.explanation or "is not given", is_good=not is_wrong)


async def _read_balance(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    if not institution.traits.has_balance:
        yield _not_tried("balance", "the institution's API has none")
        return
    await institution.read_balance()
    yield _judge("balance")


async def _read_absent(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    found = await institution.read_charge(plan.txid)
    yield _judge("missing charge", "there is one", is_good=found is None)


async def _open(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    answer = await institution.open_charge(plan.terms)
    yield _judge_charge("open charge", answer, "active", plan.terms.lifetime_s)
    if isinstance(answer, port.OpenedCharge):
        yield _judge("code of the charge", "there is none", is_good=answer.code is not None)


async def _open_again(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    """Open the charge again: answered or refused, as the profile defines, and never another charge."""
    answer = await institution.open_charge(plan.terms)
    traits = plan.profile.standard.operations.get("cob.criar_com_txid")
    is_answered = isinstance(answer, port.OpenedCharge)
    # Without such an operation in the profile, either will do.
    is_known = traits is None or is_answered == (traits.repeats == "answered")
    is_good = is_known and not isinstance(answer, port.NotSent | port.CertainRefusal)
    yield _judge("open the same charge again", f"it is {_describe(answer)}", is_good=is_good)


async def _read(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    found = await institution.read_charge(plan.txid)
    if found is None:
        yield _differs("read charge", "the institution knows nothing of it")
    else:
        yield _judge_charge("read charge", found, "active", plan.terms.lifetime_s)


async def _revise(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    longer = structs.replace(plan.terms, lifetime_s=2 * plan.terms.lifetime_s)
    yield _judge_charge("revise charge", await institution.revise_charge(longer), "active", longer.lifetime_s)


async def _remove(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    yield _judge_charge("remove charge", await institution.remove_charge(plan.txid), "removed_by_us")
    found = await institution.read_charge(plan.txid)
    is_good = found is None or found.status == "removed_by_us"
    yield _judge("read the removed charge", f"it is {found and found.status}", is_good=is_good)


async def _list(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    found = list[port.ReceivedPix]()
    unreadable = list[str]()
    async for page in institution.list_received(plan.at - timedelta(days=1), plan.at):
        for item in page:
            if isinstance(item, MalformedItem):
                unreadable.append(item.reason)
            else:
                found.append(item)
    yield _judge("list received", "; ".join(dict.fromkeys(unreadable)), is_good=not unreadable)
    absent = await institution.read_received(_NOBODYS)
    yield _judge("missing received Pix", "there is one", is_good=absent is None)
    if not found:
        yield _not_tried("read received", "nothing came in within a day")
    elif await institution.read_received(found[0].end_to_end_id) is None:
        yield _differs("read received", "it is listed, and not found")
    else:
        yield _judge("read received")
    async for step in _return(institution, plan, found):
        yield step


async def _return(institution: port.Institution, plan: RehearsalTerms, received: Sequence[port.ReceivedPix]) -> Walked:
    pix = next((each for each in received if _left_cents(each) >= _RETURNED_CENTS), None)
    if not plan.returns:
        yield _not_tried("refund", "`institution allow --refunds` allows none")
        return
    if pix is None:
        yield _not_tried("refund", "nothing that could be returned came in within a day")
        return
    absent = await institution.read_refund(pix.end_to_end_id, plan.refund_id)
    yield _judge("missing refund", "there is one", is_good=absent is None)
    first = await institution.refund(pix.end_to_end_id, plan.refund_id, _RETURNED_CENTS)
    yield _judge("refund", f"it is {_describe(first)}", is_good=isinstance(first, port.ListedRefund))
    if isinstance(first, port.NotSent | port.CertainRefusal):
        return
    if institution.traits.repeats_refunds:
        # Elsewhere a second request might return a second cent.
        again = await institution.refund(pix.end_to_end_id, plan.refund_id, _RETURNED_CENTS)
        yield _judge("the same refund again", f"it is {_describe(again)}", is_good=not isinstance(again, port.NotSent))
    found = await institution.read_refund(pix.end_to_end_id, plan.refund_id)
    is_good = found is not None and found.amount_cents == _RETURNED_CENTS
    yield _judge("read refund", "there is none" if found is None else "its amount is another", is_good=is_good)
    after = await institution.read_received(pix.end_to_end_id)
    returned = _left_cents(pix) - (0 if after is None else _left_cents(after))
    # Some list it only once it has settled.
    fitting = (_RETURNED_CENTS,) if found is not None and found.status == "returned" else (0, _RETURNED_CENTS)
    is_good = after is not None and returned in fitting
    yield _judge("returned once", f"{returned} cents less are left of it", is_good=is_good)


async def _list_webhooks(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    await institution.list_webhooks()
    yield _judge("webhooks")


async def _list_statement(institution: port.Institution, plan: RehearsalTerms) -> Walked:
    if not institution.traits.has_statement:
        yield _not_tried("statement", "the institution's API has none")
        return
    today = to_day(plan.at)
    unreadable = [
        item.reason
        async for page in institution.list_statement(today - timedelta(days=1), today)
        for item in page
        if isinstance(item, MalformedItem)
    ]
    yield _judge("statement", "; ".join(dict.fromkeys(unreadable)), is_good=not unreadable)


_ACTS: Final[Mapping[str, Callable[[port.Institution, RehearsalTerms], Walked]]] = {
    "permissions": _check,
    "balance": _read_balance,
    "missing charge": _read_absent,
    "open charge": _open,
    "open the same charge again": _open_again,
    "read charge": _read,
    "revise charge": _revise,
    "remove charge": _remove,
    "received": _list,
    "webhooks": _list_webhooks,
    "statement": _list_statement,
}


def _left_cents(pix: port.ReceivedPix) -> int:
    return pix.amount_cents - sum(each.amount_cents for each in pix.refunds if each.status != "refused")


def _judge_charge(
    step: str, answer: port.OpeningAnswer, status: str, lifetime_s: int | None = None
) -> recordings.RehearsedStep:
    if not isinstance(answer, port.OpenedCharge):
        return _differs(step, f"it is {_describe(answer)}")
    if answer.status != status:
        return _differs(step, f"it is {answer.status}")
    is_good = lifetime_s in (None, answer.lifetime_s)
    return _judge(step, f"it runs {answer.lifetime_s} s, where we asked for {lifetime_s}", is_good=is_good)


def _describe(answer: port.OpeningAnswer | port.RefundAnswer) -> str:
    if isinstance(answer, port.OpenedCharge | port.ListedRefund):
        return "answered"
    if isinstance(answer, port.CertainRefusal):
        return f"refused for certain: {answer.reason}"
    return f"{'not sent' if isinstance(answer, port.NotSent) else 'unknown what became of it'}: {answer.reason}"


def _judge(step: str, text: str = "", *, is_good: bool = True) -> recordings.RehearsedStep:
    return recordings.RehearsedStep(step=step, outcome="as expected") if is_good else _differs(step, text)


def _differs(step: str, text: str) -> recordings.RehearsedStep:
    return recordings.RehearsedStep(step=step, outcome="differs", text=text)


def _not_tried(step: str, text: str) -> recordings.RehearsedStep:
    return recordings.RehearsedStep(step=step, outcome="not tried", text=text)
