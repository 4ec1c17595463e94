"""The sandbox's control API: payments from outside, faults of the network, the clock.

In live mode none of these paths exists.
"""

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, structs

from pixconnect.doors.api.contract.transfer import TransferParty, show_party
from pixconnect.doors.api.decoding import read_instant
from pixconnect.doors.api.envelope import PAGE_MAX, PAGE_SIZE_MAX, Amount, Id, Instant, Listing, clamp_cents
from pixconnect.doors.api.operation import Nothing, Request, Services
from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.rules import RULES_MAX, Arrival, FaultRule, PaymentTerms, Verdict
from pixconnect.features.sandbox.service import clock as clock_usecases
from pixconnect.features.sandbox.service import demonstration as demonstration_usecases
from pixconnect.features.sandbox.service import sandbox as sandbox_usecases
from pixconnect.features.sandbox.service.demonstration import NewSandboxHolder
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.rules import reject_code
from pixconnect.kernel.rules.access import ScopeName
from pixconnect.kernel.rules.holder import KeyType
from pixconnect.kernel.rules.refund import RefundReason
from pixconnect.kernel.rules.transfer import MESSAGE_LENGTH_MAX
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant


class OutsidePayer(sandbox_control.OutsidePayer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payer at another institution; the sandbox invents omitted members."""

    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The account's owner."""
    tax_id: Annotated[str, Meta(min_length=11, max_length=14)] | None = None
    """CPF or CNPJ, without a mask."""


class PaymentRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money that a payer at another institution sends you. One of `emv`, `location` and `key`."""

    emv: str | None = None
    """One of your QR codes."""
    location: str | None = None
    """One of your locations, without a scheme: its payload is read, and the charge in it paid."""
    key: str | None = None
    """One of your Pix keys; needs an amount."""
    amount: Amount | None = None
    """The amount to pay; if left out the code's amount, of a charge with a due date that of the clock's today."""
    payer: OutsidePayer | None = None
    """The payer."""
    payer_message: Annotated[str, Meta(max_length=MESSAGE_LENGTH_MAX)] | None = None
    """The payer's message: `infoPagador` of the central bank's Pix API."""
    suspect: Verdict | None = None
    """Set, your institution holds it as suspect: it releases or returns it after 72 hours, or before by `decide`."""

    # A code, a location, or a key with an amount; not as alternatives, since generators would make a type of each.
    schema_rules: ClassVar = {
        "not": {"anyOf": [{"required": ["emv", "key"]}, {"required": ["emv", "location"]}, {"required": ["key", "location"]}]},
        "if": {"not": {"anyOf": [{"required": ["emv"]}, {"required": ["location"]}]}},
        "then": {"required": ["key", "amount"]},
    }


class Payment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a payment from outside."""

    end_to_end_id: str
    """Its name on the network, and that of your incoming transfer."""
    amount: Amount
    """The amount paid."""
    status: Literal["PROCESSING", "CONFIRMED", "ERROR"]
    """CONFIRMED once the money is durably in your account; PROCESSING while it is held as suspect; ERROR if the service refused
    it, the network cancelled it or your institution returned it."""
    code: Annotated[str, Meta(examples=["BE17"])] | None = None
    """Why it was refused, in the scheme's codes."""
    reason: str | None = None
    """The same as a sentence."""


class ReturnRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money that a receiver of yours gives back."""

    end_to_end_id: str
    """Names a Pix that you sent over the rail."""
    amount: Amount | None = None
    """The amount to give back; all that is left of the Pix if left out."""
    reason: Annotated[RefundReason, Meta(extra_json_schema={"default": "MD06"})] | None = None
    """Why it is returned."""


class ReturnOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of a return."""

    return_identification: str
    """Its name on the network, and that of your incoming refund."""
    original_end_to_end_id: str
    """The returned Pix."""
    amount: Amount
    """The amount given back."""
    status: Literal["PROCESSING", "RETURNED", "ERROR"]
    """RETURNED once the money is durably in your account."""


class DepositRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Money to be put into your account."""

    amount: Amount
    """How much to put in."""


class Deposit(Struct, frozen=True, kw_only=True):
    """Money put into your account."""

    id: Id
    """The transaction's id."""
    amount: Amount
    """How much was put in."""
    create_timestamp: Instant
    """When it was put in."""


class KeyRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Pix key of a new outside account."""

    key: Annotated[str, Meta(min_length=1, max_length=77)] | None = None
    """Made up if left out."""
    key_type: KeyType
    """The key's type."""
    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    """The account's owner; made up if left out."""
    tax_id: Annotated[str, Meta(min_length=11, max_length=14)] | None = None
    """The owner's CPF or CNPJ; made up if left out."""


class KeyListQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The part of the directory to read."""

    page: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 1
    """From 1."""
    page_size: Annotated[int, Meta(ge=1, le=PAGE_SIZE_MAX)] = PAGE_SIZE_MAX
    """Entries a page."""


class QrCodeRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A QR code of an outside merchant, for you to pay."""

    kind: Literal["static", "dynamic"]
    """A dynamic one has a location, needs an amount, and is paid once."""
    key: str | None = None
    """The merchant's Pix key; the sandbox's own merchant if left out."""
    amount: Amount | None = None
    """The code's amount."""
    txid: Annotated[str, Meta(pattern="^[a-zA-Z0-9]{1,35}$", description="1 to 35 letters and digits.")] | None = None
    """The code's txid."""

    schema_rules: ClassVar = {"if": {"properties": {"kind": {"const": "dynamic"}}}, "then": {"required": ["amount"]}}


class QrCode(Struct, frozen=True, kw_only=True):
    """A QR code of an outside merchant."""

    emv: str
    """The text of the QR code."""


class HolderRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A holder for tests; all of it may be left out."""

    name: Annotated[str, Meta(min_length=1, max_length=255, extra_json_schema=dict(default="Loja de Teste"))] | None = None
    """The account's owner."""
    tax_id: Annotated[str, Meta(min_length=11, max_length=14)] | None = None
    """The owner's CPF or CNPJ, without a mask."""
    balance: Amount | None = None
    """The initial balance of the account; none if omitted."""
    scopes: Annotated[list[ScopeName], Meta(min_length=1)] | None = None
    """Its client's scopes; all of them if left out."""


class SandboxHolder(Struct, frozen=True, kw_only=True):
    """A holder for tests, and its credentials."""

    holder_id: Id
    """The holder's id, which its tokens and webhooks have in them."""
    client_id: str
    """Logs in as this holder."""
    client_secret: str
    """Shown here and never again."""
    key: str
    """A Pix key of the holder, of the type EVP."""


class FaultRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the network misbehaves: the first rule that matches wins. One set for all holders."""

    rules: Annotated[list[FaultRule], Meta(max_length=RULES_MAX)]
    """They are tried in this order."""


class ClockRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A move of the clock. Exactly one of the three."""

    advance_s: Annotated[int, Meta(ge=0, le=10**9)] | None = None
    """Forward by this many seconds."""
    now: Instant | None = None
    """Forward to this instant."""
    reset: bool | None = None
    """Back to real time."""

    schema_rules: ClassVar = dict(minProperties=1, maxProperties=1)


class SandboxClock(Struct, frozen=True, kw_only=True):
    """The time of the service and the sandbox."""

    now: Instant
    """The time by which charges expire and retries are due."""


async def pay(services: Services, request: Request[None, Nothing, PaymentRequest]) -> Payment:
    """Receive a payment from another institution.

    By one of your QR codes, locations or keys. 200 for everything that reaches the rail, refused payments included.
    """
    body = request.body
    terms = PaymentTerms(payer=body.payer or OutsidePayer(), payer_message=body.payer_message, suspect=body.suspect)
    amount_cents = None if body.amount is None else clamp_cents(body.amount)
    asked = (services.context, request.caller)
    if sum(each is not None for each in (body.emv, body.location, body.key)) != 1:
        raise errors.BadRequest("emv, location, key: exactly one of them is required")
    if body.emv is not None:
        arrival = await sandbox_usecases.pay_by_code(*asked, body.emv, amount_cents, terms)
    elif body.location is not None:
        arrival = await sandbox_usecases.pay_by_location(*asked, body.location, amount_cents, terms)
    elif amount_cents is None:
        raise errors.BadRequest("amount: is required with a key")
    else:
        arrival = await sandbox_usecases.pay_by_key(*asked, body.key or "", amount_cents, terms)
    # Including a payment that the service refused: `code` has the reason.
    return show_arrival(arrival)


def show_arrival(arrival: Arrival) -> Payment:
    return Payment(
        end_to_end_id=arrival.id,
        amount=arrival.amount_cents,
        status=arrival.status,
        code=arrival.code,
        reason=None if arrival.code is None else reject_code.explain(arrival.code),
    )


async def give_back(services: Services, request: Request[None, Nothing, ReturnRequest]) -> ReturnOutcome:
    """Receive a return of a Pix that you sent.

    The receiver returns a Pix of yours, wholly or in part.
    """
    body = request.body
    amount_cents = None if body.amount is None else clamp_cents(body.amount)
    arrival = await sandbox_usecases.give_back(
        services.context, request.caller, body.end_to_end_id, amount_cents, body.reason or "MD06"
    )
    # The network calls a successful end CONFIRMED; one of our refunds is RETURNED.
    return ReturnOutcome(
        return_identification=arrival.id,
        original_end_to_end_id=body.end_to_end_id,
        amount=arrival.amount_cents,
        status="RETURNED" if arrival.status == "CONFIRMED" else arrival.status,
    )


async def deposit(services: Services, request: Request[None, Nothing, DepositRequest]) -> Deposit:
    """Put money into your account."""
    amount_cents = clamp_cents(request.body.amount)
    made = await ledger_usecases.deposit(services.context, request.caller.holder_id, amount_cents)
    return Deposit(id=made.id, amount=made.amount_cents, create_timestamp=format_instant(made.created_at))


async def list_keys(services: Services, request: Request[None, KeyListQuery, Nothing]) -> Listing[TransferParty]:
    """List the directory's outside entries.

    Those that are always there (`settle@sandbox.pix.example` and its like) first.
    """
    query = request.query
    entries = await sandbox_usecases.call(services.context, sandbox_control.LIST_KEYS, None)
    # The directory is small and stored by the sandbox, so its pages are cut here, by number only.
    start = (query.page - 1) * query.page_size
    return Listing(
        items=[show_party(entry.party) for entry in entries[start : start + query.page_size]],
        page=query.page,
        page_size=query.page_size,
        total_count=len(entries),
    )


async def add_key(services: Services, request: Request[None, Nothing, KeyRequest]) -> TransferParty:
    """Add an entry to the directory.

    Opens an account at another institution. If the key exists already, the answer is its entry, unchanged.
    """
    body = request.body
    new = sandbox_control.NewKey(key_type=body.key_type, key=body.key, name=body.name, tax_id=body.tax_id)
    entry = await sandbox_usecases.add_key(services.context, new)
    return show_party(entry.party)


async def make_qr_code(services: Services, request: Request[None, Nothing, QrCodeRequest]) -> QrCode:
    """Make a QR code of an outside merchant.

    For you to pay. A dynamic code is paid once; a second order is rejected with BE17.
    """
    body = request.body
    amount_cents = None if body.amount is None else clamp_cents(body.amount)
    new = sandbox_control.NewQrCode(kind=body.kind, key=body.key, amount_cents=amount_cents, txid=body.txid)
    return QrCode(emv=await sandbox_usecases.make_qr_code(services.context, new))


async def open_holder(services: Services, request: Request[None, Nothing, HolderRequest]) -> SandboxHolder:
    """Make a holder for a test.

    With its own client, Pix key and, if requested, money, so that tests on one sandbox do not see each other. They still share
    the sandbox's clock and fault rules.
    """
    body = request.body
    standard = NewSandboxHolder()
    new = NewSandboxHolder(
        name=body.name or standard.name,
        tax_id=body.tax_id or standard.tax_id,
        balance_cents=None if body.balance is None else clamp_cents(body.balance),
        scopes=body.scopes or standard.scopes,
    )
    made = await demonstration_usecases.open_sandbox_holder(services.context, request.caller, new)
    return SandboxHolder(**structs.asdict(made))


async def get_faults(services: Services, request: Request[None, Nothing, Nothing]) -> FaultRules:
    """Read the fault rules."""
    return FaultRules(rules=await sandbox_usecases.call(services.context, sandbox_control.READ_FAULTS, None))


async def replace_faults(services: Services, request: Request[None, Nothing, FaultRules]) -> FaultRules:
    """Replace the fault rules."""
    return FaultRules(rules=await sandbox_usecases.replace_faults(services.context, request.body.rules))


async def clear_faults(services: Services, request: Request[None, Nothing, Nothing]) -> FaultRules:
    """Clear the fault rules."""
    return FaultRules(rules=await sandbox_usecases.replace_faults(services.context, []))


async def get_clock(services: Services, request: Request[None, Nothing, Nothing]) -> SandboxClock:
    """Read the clock."""
    return SandboxClock(now=format_instant(await clock_usecases.read_clock(services.context)))


async def move_clock(services: Services, request: Request[None, Nothing, ClockRequest]) -> SandboxClock:
    """Move the clock.

    Forward it walks from deadline to deadline, and does everything due on the way before the answer; work not done after 25 s
    falls due at the target. Tokens, login limits, signing keys and `webhook-timestamp` keep real time.
    """
    body = request.body
    # "reset": false is the same as no reset at all.
    if sum(given is not None for given in (body.advance_s, body.now, body.reset or None)) != 1:
        raise errors.BadRequest("advance_s, now, reset: exactly one of them is required")
    control = sandbox_usecases.find_control(services.context)
    if body.advance_s is not None:
        now = await clock_usecases.advance_clock(services.context, control, timedelta(seconds=body.advance_s))
    elif body.now is not None:
        now = await clock_usecases.move_clock(services.context, control, read_instant("now", body.now))
    else:
        now = await clock_usecases.reset_clock(services.context, control)
    return SandboxClock(now=format_instant(now))
