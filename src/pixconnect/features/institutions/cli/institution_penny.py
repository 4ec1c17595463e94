"""``pixconnect institution check --penny`` and ``rehearse``: tests of an account.

One cent goes to a key that an operator names, and its receiver returns one cent by hand; a rehearsal makes every call of
receiving once, with test money.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.operating import run_with_settings
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.whole_number import guess_key_type
from pixconnect.features.institutions.cli.opening import AccountName, make_opener
from pixconnect.features.institutions.rules.account import InstitutionAccount
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.features.institutions.service import inquiry as penny_usecases
from pixconnect.features.institutions.service import rehearsal as rehearsal_usecases
from pixconnect.features.institutions.service.inquiry import PennySent
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.config import Settings

_LOOK_EVERY_S: Final = 1.0


def send_penny(name: str, key: str, *, key_type: KeyType | None, is_agreed: bool, timeout_s: float, as_json: bool) -> None:
    """Send it, follow it, and wait until something comes back; ends with 5 on a failure or timeout."""
    kind = key_type or guess_key_type(key)

    async def do(settings: Settings) -> PennySent:
        from pixconnect.assembly import operators  # noqa: PLC0415  it imports everything; help need not

        opening = operators.open_operator_beside_service(settings, "pixconnect check")
        async with opening as (operator, context):
            account, fee_cents = await penny_usecases.read_penny_terms(context, name)
            _ask(account, fee_cents, key, is_agreed=is_agreed)
            sent = await penny_usecases.send_penny(context, operator, account, key, kind)
            return await _follow(context, PennySent(transfer=sent), timeout_s)

    sent = run_with_settings(do)
    transfer, back = sent.transfer, next(iter(sent.came_back), None)
    came_back = {} if back is None else output.pick(back, "came_back_as=end_to_end_id came_back_cents=amount_cents")
    shown = output.pick(transfer, "transfer_id=id end_to_end_id=shown_id status settled_at returned_cents")
    output.show(shown | came_back, as_json=as_json)
    if transfer.status == "ERROR":
        raise CommandError(
            f"the transfer failed: {transfer.outcome_code} {transfer.outcome_reason}", status=ExitStatus.ENDED_BADLY
        )
    if not sent.is_back:
        left = "has not ended" if transfer.status == "PROCESSING" else "arrived, and nothing came back"
        raise CommandError(f"the transfer {left} within {timeout_s:g} s; look at it by its id", status=ExitStatus.ENDED_BADLY)


def _ask(account: InstitutionAccount, fee: int | None, key: str, *, is_agreed: bool) -> None:
    terminal.notice(f"R$ 0,01 will leave {account.name}, from holder {account.house_id}, for {terminal.on_one_line(key)}.")
    terminal.notice(
        "The institution's fee for it is not read yet: see your contract."
        if fee is None
        else f"For the last transfer whose fee was read the institution took {show_reais(fee)}."
    )
    if is_agreed:
        return
    if not terminal.is_terminal(sys.stdin):
        raise CommandError("--yes: required without a terminal; nothing was sent")
    terminal.notice("Send it? Type yes:")
    if sys.stdin.readline().strip() != "yes":
        raise CommandError("nothing was sent")


async def _follow(context: Context, sent: PennySent, timeout_s: float) -> PennySent:
    until_s, printed = time.monotonic() + timeout_s, ""
    while True:
        status = sent.transfer.status
        if status != printed:
            printed = status
            terminal.notice(f"Transfer {sent.transfer.id}: {status}.")
            if status == "CONFIRMED":
                terminal.notice("Now have its receiver send R$ 0,01 back, or return it.")
        if status == "ERROR" or sent.is_back or time.monotonic() > until_s:
            return sent
        await asyncio.sleep(_LOOK_EVERY_S)
        sent = await penny_usecases.follow_penny(context, sent.transfer)


def rehearse(name: AccountName, *, record: Path | None = None, json: Json = False) -> None:
    """Make every call of receiving once, in the institution's tests or at a counterpart; prints the differences.

    It opens a charge and removes it, and returns one cent, under one id twice, if `institution allow --refunds` permits it and
    something came in. It ends with 5 if anything differs from the profile.

    Args:
        record: A new file for the exchange, without secrets, documents and names. Read it before you pass it on.
    """
    if record is not None and record.exists():
        raise CommandError(f"{record}: is there already; name another file")
    taken = list[TakenExchange]()
    opener = make_opener(taken.append)
    found = operating.run(rehearsal_usecases.rehearse, opener, taken, name)
    if record is not None:
        try:
            with record.open("xb") as opened:
                record.chmod(0o600)
                opened.write(msgspec.json.format(msgspec.json.encode(found.recording), indent=2) + b"\n")
        except OSError as error:
            raise CommandError(f"{record}: cannot be written: {error.strerror}") from None
    rows: list[Shown] = [dict(step=one.step, outcome=one.outcome, text=one.text or None) for one in found.steps]
    output.show_list("steps", rows, as_json=json)
    if found.differs_count:
        raise CommandError(f"{found.differs_count} differ from the institution's profile", status=ExitStatus.ENDED_BADLY)
