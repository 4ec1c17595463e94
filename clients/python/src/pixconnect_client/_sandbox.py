"""The sandbox's operations: the other side of the network. A live service has none of them and answers ``NotFound``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pixconnect_client._call import Call, body_of, read_record
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
    """Be paid, break things, move the clock."""

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
            emv: The code's text, ``emvqrcps`` of a charge.
            amount: Cents; if left out the code's amount, of a charge with a due date that of the clock's today.
            payer: Made up if left out.
            payer_message: What the payer writes.
            suspect: ``release`` or ``return``: it is held as suspect, and this becomes of it after 72 hours.
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
        """Somebody outside pays the charge that one of your locations serves."""
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
        """Decide as your institution would on a payment that it holds as suspect: ``release`` or ``return``."""
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
        """The receiver of a Pix of yours returns it: what is left of it, or the amount given."""
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
        """Let the institution, or a person in its app, move money on your account."""
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
        """Somebody contests a Pix that you received; the sandbox, your institution, blocks what there is of it.

        Args:
            end_to_end_id: Names the Pix.
            amount: How much is contested, in cents; all of it if left out.
            reason: ``fraud`` or ``operational_flaw``.
            situation: What has happened, such as ``scam``.
            words: What the payer says.
            judged: What becomes of it after seven days: ``by_answer``, ``take``, ``release`` or ``never``.
        """
        body = body_of(
            end_to_end_id=end_to_end_id, amount=amount, reason=reason, situation=situation, words=words, judged=judged
        )
        return change_one("POST", "/sandbox/v1/infractions", SandboxInfraction, body=body)

    @operation
    def decide_infraction(
        self, infraction_id: str, decision: str, *, amount: int | None = None
    ) -> Call[SandboxInfraction]:
        """Decide as the institution would: ``take``, ``release``, or ``hold`` more of what is wanted."""
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
        """List whom you can send to."""
        return get_page("/sandbox/v1/keys", TransferParty, page=page, page_size=page_size)

    @operation
    def add_key(
        self, key_type: KeyType | str, *, key: str | None = None, name: str | None = None, tax_id: str | None = None
    ) -> Call[TransferParty]:
        """Add somebody outside; what is left out is made up."""
        body = body_of(key_type=key_type, key=key, name=name, tax_id=tax_id)
        return change_one("POST", "/sandbox/v1/keys", TransferParty, body=body)

    @operation
    def make_qr_code(
        self, kind: str, *, key: str | None = None, amount: int | None = None, txid: str | None = None
    ) -> Call[QrCode]:
        """A QR code of an outside merchant, for you to pay: ``static`` or ``dynamic``, which needs an amount."""
        body = body_of(kind=kind, key=key, amount=amount, txid=txid)
        return change_one("POST", "/sandbox/v1/qrcodes", QrCode, body=body)

    @operation
    def faults(self) -> Call[FaultRules]:
        """How the network misbehaves, for all holders."""
        return get_one("/sandbox/v1/faults", FaultRules)

    @operation
    def replace_faults(self, rules: Sequence[FaultRule]) -> Call[FaultRules]:
        """Let the network misbehave: the first rule that matches wins."""
        return change_one("PUT", "/sandbox/v1/faults", FaultRules, body=body_of(rules=rules))

    @operation
    def clear_faults(self) -> Call[FaultRules]:
        return change_one("DELETE", "/sandbox/v1/faults", FaultRules)

    @operation
    def clock(self) -> Call[SandboxClock]:
        """The time by which charges expire and retries are due."""
        return get_one("/sandbox/v1/clock", SandboxClock)

    @operation
    def advance_clock(self, seconds: int) -> Call[SandboxClock]:
        """Move the time forward; all that falls due on the way is done before the answer."""
        return change_one("POST", "/sandbox/v1/clock", SandboxClock, body=body_of(advance_s=seconds))

    @operation
    def set_clock(self, now: datetime) -> Call[SandboxClock]:
        """Move the time forward to an instant."""
        return change_one("POST", "/sandbox/v1/clock", SandboxClock, body=body_of(now=now))

    @operation
    def reset_clock(self) -> Call[SandboxClock]:
        """Back to real time."""
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
        """Open an account with a client and a key of its own; what is left out is made up."""
        scopes = None if scopes is None else [*scopes]
        body = body_of(name=name, tax_id=tax_id, balance=balance, scopes=scopes)
        return change_one("POST", "/sandbox/v1/holders", SandboxHolder, body=body)
