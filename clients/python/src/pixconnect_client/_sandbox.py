"""Operations of the sandbox, which simulate the rest of the network. A live service answers ``NotFound``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pixconnect_client._call import Call, body_of, list_of, read_record
from pixconnect_client._operation import Resource, SenderT, listing, operation
from pixconnect_client._reads import change_one, get_one, get_page
from pixconnect_client.enums import (
    Direction,
    InfractionReason,
    InfractionSituation,
    KeyType,
    MovementKind,
    RefundReason,
)
from pixconnect_client.lists import Page
from pixconnect_client.records import TransferParty
from pixconnect_client.sandbox_records import (
    Deposit,
    FaultRule,
    FaultRules,
    MovementOutcome,
    OutsidePayer,
    Payment,
    QrCode,
    ReturnOutcome,
    SandboxClock,
    SandboxHolder,
    SandboxInfraction,
)


class Sandbox(Resource[SenderT]):
    """Simulate payments and faults, and move the clock."""

    @operation
    def pay(
        self,
        emv: str,
        *,
        amount: int | None = None,
        payer: OutsidePayer | None = None,
        payer_message: str | None = None,
        suspect: str | None = None,
    ) -> Call[Payment]:
        """Pay one of your QR codes from another institution.

        Args:
            emv: The text of the QR code: ``emvqrcps`` of a charge.
            amount: Cents. If left out, the code's amount; for a charge with a due date, the amount of the sandbox clock's day.
            payer: Generated if left out.
            payer_message: The payer's message.
            suspect: Hold the payment as suspect, and ``release`` or ``return`` it after 72 hours.
        """
        body = body_of(emv=emv, amount=amount, payer=payer, payer_message=payer_message, suspect=suspect)
        return change_one("POST", "/sandbox/v1/payments", Payment, body=body)

    @operation
    def pay_location(
        self,
        location: str,
        *,
        amount: int | None = None,
        payer: OutsidePayer | None = None,
        payer_message: str | None = None,
        suspect: str | None = None,
    ) -> Call[Payment]:
        """Pay the charge at one of your locations from another institution."""
        body = body_of(location=location, amount=amount, payer=payer, payer_message=payer_message, suspect=suspect)
        return change_one("POST", "/sandbox/v1/payments", Payment, body=body)

    @operation
    def receive(
        self,
        key: str,
        amount: int,
        *,
        payer: OutsidePayer | None = None,
        payer_message: str | None = None,
        suspect: str | None = None,
    ) -> Call[Payment]:
        """Send money from another institution to one of your keys."""
        body = body_of(key=key, amount=amount, payer=payer, payer_message=payer_message, suspect=suspect)
        return change_one("POST", "/sandbox/v1/payments", Payment, body=body)

    @operation
    def judge_payment(self, end_to_end_id: str, decision: str) -> Call[Payment]:
        """Decide, as your institution, on a payment held as suspect: ``release`` or ``return``."""
        return Call(
            method="POST",
            path="/sandbox/v1/payments/{endToEndId}/decide",
            parameters={"endToEndId": end_to_end_id},
            body=body_of(decision=decision),
            read=read_record(Payment),
            record=Payment,
        )

    @operation
    def give_back(
        self, end_to_end_id: str, *, amount: int | None = None, reason: RefundReason | str | None = None
    ) -> Call[ReturnOutcome]:
        """Return a Pix that you sent, as its payee: the remaining amount, or the given one."""
        body = body_of(end_to_end_id=end_to_end_id, amount=amount, reason=reason)
        return change_one("POST", "/sandbox/v1/returns", ReturnOutcome, body=body)

    @operation
    def deposit(self, amount: int) -> Call[Deposit]:
        """Put money into your account."""
        return change_one("POST", "/sandbox/v1/deposits", Deposit, body=body_of(amount=amount))

    @operation
    def move(
        self, kind: MovementKind | str, direction: Direction | str, amount: int, *, text: str | None = None
    ) -> Call[MovementOutcome]:
        """Move money on your account, as the institution or a person in its app."""
        body = body_of(kind=kind, direction=direction, amount=amount, text=text)
        return change_one("POST", "/sandbox/v1/movements", MovementOutcome, body=body)

    @operation
    def open_infraction(
        self,
        end_to_end_id: str,
        *,
        amount: int | None = None,
        reason: InfractionReason | str | None = None,
        situation: InfractionSituation | str | None = None,
        words: str | None = None,
        judged: str | None = None,
    ) -> Call[SandboxInfraction]:
        """Contest a Pix that you received. The sandbox, as your institution, blocks the available part of it.

        Args:
            end_to_end_id: The end-to-end id of the Pix.
            amount: The contested amount in cents; the whole Pix if left out.
            reason: ``fraud`` or ``operational_flaw``.
            situation: The situation, such as ``scam``.
            words: The payer's statement.
            judged: The decision after seven days: ``by_answer``, ``take``, ``release`` or ``never``.
        """
        body = body_of(
            end_to_end_id=end_to_end_id, amount=amount, reason=reason, situation=situation, words=words, judged=judged
        )
        return change_one("POST", "/sandbox/v1/infractions", SandboxInfraction, body=body)

    @operation
    def decide_infraction(self, infraction_id: str, decision: str, *, amount: int | None = None) -> Call[SandboxInfraction]:
        """Decide, as the institution: ``take``, ``release``, or ``hold`` more of the contested amount."""
        body = body_of(decision=decision, amount=amount)
        return Call(
            method="POST",
            path="/sandbox/v1/infractions/{infractionId}/decide",
            parameters={"infractionId": infraction_id},
            body=body,
            read=read_record(SandboxInfraction),
            record=SandboxInfraction,
        )

    @listing
    def keys(self, *, page: int | None = None, page_size: int | None = None) -> Call[Page[TransferParty]]:
        """List the keys that you can pay in the sandbox."""
        return get_page("/sandbox/v1/keys", TransferParty, page=page, page_size=page_size)

    @operation
    def add_key(
        self, key_type: KeyType | str, *, key: str | None = None, name: str | None = None, tax_id: str | None = None
    ) -> Call[TransferParty]:
        """Add a payee at another institution. Missing values are generated."""
        body = body_of(key_type=key_type, key=key, name=name, tax_id=tax_id)
        return change_one("POST", "/sandbox/v1/keys", TransferParty, body=body)

    @operation
    def make_qr_code(
        self, kind: str, *, key: str | None = None, amount: int | None = None, txid: str | None = None
    ) -> Call[QrCode]:
        """Create a QR code of an outside merchant for you to pay: ``static``, or ``dynamic`` with an amount."""
        body = body_of(kind=kind, key=key, amount=amount, txid=txid)
        return change_one("POST", "/sandbox/v1/qrcodes", QrCode, body=body)

    @operation
    def faults(self) -> Call[FaultRules]:
        """Get the fault rules, which apply to all holders."""
        return get_one("/sandbox/v1/faults", FaultRules)

    @operation
    def replace_faults(self, rules: Sequence[FaultRule]) -> Call[FaultRules]:
        """Replace the fault rules. The first matching rule applies."""
        return change_one("PUT", "/sandbox/v1/faults", FaultRules, body=body_of(rules=rules))

    @operation
    def clear_faults(self) -> Call[FaultRules]:
        return change_one("DELETE", "/sandbox/v1/faults", FaultRules)

    @operation
    def clock(self) -> Call[SandboxClock]:
        """Get the sandbox clock, which controls expiry and retries."""
        return get_one("/sandbox/v1/clock", SandboxClock)

    @operation
    def advance_clock(self, seconds: int) -> Call[SandboxClock]:
        """Advance the clock. Everything that becomes due is processed before the call returns."""
        return change_one("POST", "/sandbox/v1/clock", SandboxClock, body=body_of(advance_s=seconds))

    @operation
    def set_clock(self, now: datetime) -> Call[SandboxClock]:
        """Advance the clock to an instant."""
        return change_one("POST", "/sandbox/v1/clock", SandboxClock, body=body_of(now=now))

    @operation
    def reset_clock(self) -> Call[SandboxClock]:
        """Reset the clock to real time."""
        return change_one("POST", "/sandbox/v1/clock", SandboxClock, body=body_of(reset=True))

    @operation
    def open_holder(
        self,
        *,
        name: str | None = None,
        tax_id: str | None = None,
        balance: int | None = None,
        scopes: Sequence[str] | None = None,
    ) -> Call[SandboxHolder]:
        """Create a holder with its own client and Pix key. Missing values are generated."""
        wanted = None if scopes is None else list_of(scopes)
        body = body_of(name=name, tax_id=tax_id, balance=balance or None, scopes=wanted)
        return change_one("POST", "/sandbox/v1/holders", SandboxHolder, body=body)
