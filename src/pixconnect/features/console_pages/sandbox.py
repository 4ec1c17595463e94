"""Console pages of the sandbox: a payer's phone, deposits, fault rules, and the clock."""

from datetime import datetime, timedelta
from typing import Final

import msgspec
from starlette.responses import Response

from pixconnect.doors.console import wanted
from pixconnect.doors.console.application import PageRoute
from pixconnect.doors.console.filters import picture_of
from pixconnect.doors.console.forms import read_field
from pixconnect.doors.console.visit import Visit
from pixconnect.features.due_charges.service import show_due
from pixconnect.features.finding.service import timeline
from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.rules import FaultMatch, FaultRule, OutsidePayer, PaymentTerms
from pixconnect.features.sandbox.service import clock, sandbox
from pixconnect.kernel.flows import charge, holder, ledger
from pixconnect.kernel.rules.charge import Charge, ChargeRequest
from pixconnect.platform.base import errors

TEST_AMOUNT_CENTS: Final = 100
ADVANCES_S: Final = (60, 3_600, 86_400)
# Fault rules offered for selection, by effect, with their messages.
FAULTS: Final = (
    *((effect, "submit") for effect in ("reject:AC03", "reject:AM04", "delay:5000", "no_answer", "lost")),
    *((effect, "payment") for effect in ("two_steps:30000", "suspect:release:30000", "suspect:return:30000")),
    ("unavailable", None),
)


# The message about a payment or a return, by its end.
_PAID: Final = dict(CONFIRMED="paid", PROCESSING="not_yet", ERROR="not_done")
_GIVEN_BACK: Final = dict(CONFIRMED="returned", PROCESSING="not_yet", ERROR="not_done")


async def show_sandbox(visit: Visit) -> Response:
    _check_sandbox(visit)
    context = visit.context
    rules = await sandbox.call(context, sandbox_control.READ_FAULTS, None)
    due = await sandbox.call(context, sandbox_control.READ_DUE, None)
    return visit.page(
        "sandbox.html",
        rules=rules,
        now=await clock.read_clock(context),
        real_now=context.clock.real_now(),
        next_due_at=due.next_due_at,
        reports_count=due.reports_count,
        faults=FAULTS,
        advances_s=ADVANCES_S,
    )


async def _find_charge(visit: Visit) -> tuple[Charge, datetime]:
    """Find the charge of the address, and the present time."""
    found = await timeline.read_timeline(visit.context, visit.viewer, "charge", visit.path_id())
    return errors.require(found.facts.charge, "a charge's line of time has the charge"), found.now


async def show_phone(visit: Visit) -> Response:
    _check_sandbox(visit)
    subject, now = await _find_charge(visit)
    return visit.page(
        "phone.html",
        charge=subject,
        due=show_due(subject, now),
        picture=picture_of(visit.parts.draw_qr, subject.br_code),
        now=now,
    )


async def pay(visit: Visit) -> Response:
    _check_sandbox(visit)
    form = visit.form()
    subject, _ = await _find_charge(visit)
    visit = visit.about(subject.holder_id)
    path = f"/charges/{subject.id}"
    if read_field(form, "answer") != "pay":
        # A payer who declines notifies no system: the charge keeps waiting.
        return visit.go(path, notice="refused")
    caller, act = visit.act("sandbox pay", f"charge {subject.id}")
    terms = PaymentTerms(payer=OutsidePayer(name=read_field(form, "name") or None))
    deed = sandbox.pay_by_code(visit.context, caller, subject.br_code, None, terms)
    arrival = await visit.do_and_note(act, deed)
    # Another payer may have paid it since the phone was shown: then the bank refuses this payment, and no money moves.
    return visit.go(path, notice=_PAID[arrival.status])


async def deposit(visit: Visit) -> Response:
    _check_sandbox(visit)
    form = visit.form()
    cents = wanted.read_one_amount("amount", read_field(form, "amount"))
    caller, act = visit.act("sandbox deposit", f"holder {visit.holder_id}", {"amount": cents})
    await visit.do_and_note(act, ledger.deposit(visit.context, caller.holder_id, cents))
    return visit.go("/ledger", notice="deposited")


async def give_back(visit: Visit) -> Response:
    _check_sandbox(visit)
    visit.form()
    found = await timeline.read_timeline(visit.context, visit.viewer, "transfer", visit.path_id())
    transfer = next(each for each in found.facts.transfers if each.id == visit.path_id())
    visit = visit.about(transfer.holder_id)
    caller, act = visit.act("sandbox return", f"transfer {transfer.id}")
    deed = sandbox.give_back(visit.context, caller, transfer.end_to_end_id, None, "MD06")
    arrival = await visit.do_and_note(act, deed)
    return visit.go(f"/transfers/{transfer.id}", notice=_GIVEN_BACK[arrival.status])


async def make_charge(visit: Visit) -> Response:
    """Create a charge of R$ 1,00, which every subscribed endpoint gets as an event."""
    _check_sandbox(visit)
    form = visit.form()
    visit.viewer.require("charge.write")
    caller, act = visit.act("sandbox test event", f"holder {visit.holder_id}")
    account = await visit.context.directory.read_account(caller.holder_id)
    keys = await holder.list_pix_keys(visit.operator, caller.holder_id)
    if not keys:
        raise errors.BadRequest(f"holder {caller.holder_id} ({account.party.name}) has no Pix key: add one first")
    amount = read_field(form, "amount")
    cents = wanted.read_one_amount("amount", amount) if amount else TEST_AMOUNT_CENTS
    request = ChargeRequest(amount_cents=cents, key=keys[0].key)
    made = await visit.do_and_note(act, charge.create_charge(visit.context, caller, request))
    if read_field(form, "next").startswith("/endpoints/"):
        return visit.go(read_field(form, "next"), notice="tested")
    return visit.go(f"/sandbox/phone/{made.id}")


async def move_clock(visit: Visit) -> Response:
    _check_sandbox(visit)
    form = visit.form()
    context, control = visit.context, sandbox.find_control(visit.context)
    text = read_field(form, "by")
    if not text or (text != "reset" and not (text.isascii() and text.isdecimal() and len(text) < 10)):
        raise errors.BadRequest("by: a number of seconds")
    act = visit.sandbox_act("sandbox clock", "clock", {"by": text})
    if text == "reset":
        await visit.do_and_note(act, clock.reset_clock(context, control))
    else:
        await visit.do_and_note(act, clock.advance_clock(context, control, timedelta(seconds=int(text))))
    return visit.go("/sandbox", notice="moved")


async def set_fault(visit: Visit) -> Response:
    """Add one rule before the others, or clear all."""
    _check_sandbox(visit)
    form = visit.form()
    context, wanted_effect = visit.context, read_field(form, "effect")
    if wanted_effect == "none":
        rules: list[FaultRule] = []
    else:
        operation = next((operation for effect, operation in FAULTS if effect == wanted_effect), "")
        if operation == "":
            raise errors.BadRequest("effect: choose one of those that are shown")
        match = FaultMatch() if operation is None else msgspec.convert({"operation": operation}, FaultMatch)
        times = read_field(form, "times")
        count = int(times) if times.isascii() and times.isdecimal() and 0 < len(times) < 6 else None
        rule = FaultRule(effect=wanted_effect, match=match, times=count)
        rules = [rule, *await sandbox.call(context, sandbox_control.READ_FAULTS, None)]
    act = visit.sandbox_act("sandbox faults", "network", {"effect": wanted_effect})
    await visit.do_and_note(act, sandbox.replace_faults(context, rules))
    return visit.go("/sandbox", notice="faults")


def _check_sandbox(visit: Visit) -> None:
    if not visit.parts.is_sandbox:
        raise errors.NotFound("there is no sandbox in live mode")


ROUTES: Final = (
    PageRoute(path="/sandbox", page=show_sandbox),
    PageRoute(path="/sandbox/phone/{id}", page=show_phone),
    PageRoute(path="/sandbox/phone/{id}", page=pay, method="POST"),
    PageRoute(path="/sandbox/deposit", page=deposit, method="POST"),
    PageRoute(path="/sandbox/return/{id}", page=give_back, method="POST"),
    PageRoute(path="/sandbox/test-event", page=make_charge, method="POST"),
    PageRoute(path="/sandbox/charge", page=make_charge, method="POST"),
    PageRoute(path="/sandbox/clock", page=move_clock, method="POST"),
    PageRoute(path="/sandbox/faults", page=set_fault, method="POST"),
)
