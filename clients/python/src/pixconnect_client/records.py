"""What the service answers, under the names of its OpenAPI document.

Amounts are cents. A field that this version does not know is passed over.
"""

from __future__ import annotations

from datetime import date, datetime

from msgspec import Struct

from pixconnect_client.enums import (
    AccountType,
    ChargeStatus,
    CodeKind,
    DeductionKind,
    DefenceStatus,
    DeliveryStatus,
    Direction,
    DiscountKind,
    EndpointStatus,
    EventName,
    HealthStatus,
    InfractionReason,
    InfractionSituation,
    InfractionStatus,
    InterestKind,
    KeyType,
    MemberCertainty,
    ReadinessStatus,
    ReceiptKind,
    RefundReason,
    RefundStatus,
    TransferStatus,
    WaitsFor,
)


class Charge(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A request to be paid, with its QR code."""

    id: int
    amount: int
    """The amount to be paid. Cents."""
    key: str
    """The Pix key that receives the payment, normalised."""
    external_id: str
    """Your own name for it, or the one that the service made."""
    status: ChargeStatus
    """PENDING until it is paid (APPROVED), expires or is removed (both EXPIRED); RETURNED when all was refunded."""
    emvqrcps: str
    """The text of the QR code, to be copied and pasted."""
    base64image: str
    """The QR code as a PNG in base64 if ``base64=true`` was asked for, otherwise empty."""
    transaction_identification: str
    """Its txid, its name in the Pix scheme."""
    payer: ChargePayer | None = None
    """Who was asked to pay, as it was sent."""


class ChargePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who is asked to pay."""

    name: str
    """Free text."""
    tax_id: str
    """CPF of 11 digits or CNPJ of 14 characters, without a mask."""


class ChargeFine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Added once, from the first day after the due date on."""

    kind: DeductionKind
    """``PERCENTAGE`` is of the amount less the rebate."""
    value: int
    """Cents of a sum, hundredths of a per cent: 250 is R$ 2,50, or 2.5 %."""


class ChargeInterest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Added for each day after the due date."""

    kind: InterestKind
    """A month has 30 calendar or 21 business days, a year 365 or 252."""
    value: int
    """Cents of a sum, hundredths of a per cent."""


class ChargeRebate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Taken off on every day."""

    kind: DeductionKind
    """``PERCENTAGE`` is of the amount."""
    value: int
    """Cents of a sum, hundredths of a per cent."""


class ChargeDatedDiscount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A discount until a date."""

    until: date
    """The last day on which it is given; not later than the due date."""
    value: int
    """Cents of a sum, hundredths of a per cent."""


class ChargeDiscount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Taken off when it is paid early."""

    kind: DiscountKind
    """Until dates, or for each day before the due date."""
    value: int | None = None
    """For each day, of a kind by the day. Cents of a sum, hundredths of a per cent."""
    dated: list[ChargeDatedDiscount] | None = None
    """Of a kind until dates, three at most: the earliest that has not passed is given."""


class PaidBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payment of a charge."""

    charge_id: int
    transfer_id: int
    """The incoming transfer that paid it."""
    end_to_end_id: str
    """The transfer's name on the whole network."""
    amount: int
    """Cents."""
    status: TransferStatus
    """CONFIRMED; RETURNED when all of it was refunded."""
    paid_at: datetime
    payer: TransferParty


class Transfer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Money moved over Pix."""

    id: int
    amount: int
    """The amount sent. Cents."""
    create_timestamp: datetime
    """When it was accepted."""
    last_modified: datetime
    """When it last changed."""
    credit_party: TransferParty
    """The payee."""
    debit_party: TransferParty
    """The payer."""
    end_to_end_id: str
    """Its name on the whole network. It finds the transfer for good, also where the network changes it later."""
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    status: TransferStatus
    """PROCESSING at first, then CONFIRMED or ERROR; CANCELLED if it never left; RETURNED when all of it came back."""
    transaction_identification: str | None = None
    """The txid of the QR code, if there was one."""


class TransferParty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a transfer."""

    account_number: str
    """With its check digit, without a mask."""
    account_type: AccountType
    """The kind of account."""
    bank: str | None = None
    """The institution's name."""
    branch: str
    """Without a check digit."""
    ispb: str
    """The institution's identifier, 8 characters."""
    key: str | None = None
    """A Pix key of the account."""
    key_type: KeyType | None = None
    """The key's type."""
    name: str
    """The account's owner."""
    tax_id: str
    """The owner's CPF of 11 digits or CNPJ of 14 characters, without a mask."""


class TransferOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a transfer, and its reason."""

    status: TransferStatus
    """The transfer's status."""
    code: str | None = None
    """Why it failed, if it did: the rail's code, or the service's."""
    reason: str | None = None
    """The same as a sentence."""


class PartyMember(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One member of a party, and how it is known."""

    certainty: MemberCertainty
    """``known`` is whole, ``masked`` is with stars as the institution sends it, ``unknown`` is not told."""
    value: str | None = None
    """What it is, unless it is unknown."""


class KnownParty(Struct, frozen=True, kw_only=True):
    """One side of a transfer as far as it is known. Of your own side it is what this service knows of you."""

    account_number: PartyMember
    account_type: PartyMember
    """No institution tells it of a payer."""
    bank: PartyMember
    branch: PartyMember
    ispb: PartyMember
    key: PartyMember
    """The Pix key that was paid or found; of a payer it is never told."""
    key_type: PartyMember
    name: PartyMember
    tax_id: PartyMember


class TransferParties(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of both sides of a transfer, and its names."""

    payer: KnownParty
    payee: KnownParty
    end_to_end_id: str
    is_end_to_end_id_ours: bool
    """Whether that name is the service's alone, so that no other institution finds the Pix by it."""
    transaction_identification: str | None = None
    """The txid that it carries, if there is one."""
    network_transaction_identification: str | None = None
    """That txid as the institution made it itself and the network has it, where that institution takes none of ours."""
    institution: str | None = None
    """The account at an institution on which it lies, as the operator calls it."""
    waits_for: WaitsFor | None = None
    """What a person has to see to before it goes on: an operator of the service has to approve it, within 11 hours; or at the
    institution its approval, or funds there, which may take days. Its status stays ``PROCESSING``."""
    waits_since: datetime | None = None
    """Since when, or when that was first seen."""


class ReceiptParty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a receipt, as far as it is known."""

    name: str | None = None
    tax_id: str | None = None
    """A CPF without its first three and last two digits, or a CNPJ."""
    institution: str | None = None
    ispb: str | None = None
    """The institution's identifier, with which its CNPJ begins."""
    key: str | None = None
    """The payee's Pix key; a CPF is masked here too."""


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a transfer or refund that has settled. It may be shown to anybody."""

    kind: ReceiptKind
    id: int
    """The transfer's or refund's."""
    direction: Direction
    amount: int
    settled_at: datetime
    """By the network's clock, where it is known."""
    payer: ReceiptParty
    """Of a refund, who returned it."""
    payee: ReceiptParty
    end_to_end_id: str | None = None
    """The network's name of the Pix, of a refund that of the original; None where the network does not know one."""
    return_identification: str | None = None
    """The network's name of a refund."""
    transaction_identification: str | None = None
    """The txid of the code that was paid, if it has one."""
    code_kind: CodeKind
    amount_returned: int | None = None
    """Of a transfer: how much of it has been returned since, if any."""
    message: str | None = None
    """What the payer wrote, or who returned it."""
    is_book: bool
    """Settled within the service, without the network."""
    is_test: bool
    """No money has moved."""


class Refund(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A received Pix given back, wholly or in part."""

    id: int
    external_id: str | None = None
    """Your own name for it; incoming ones have none."""
    return_identification: str
    """Its name on the whole network. It finds the refund for good, also where the network changes it later."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: str
    """Joins everything of one payment."""
    amount: int
    """The amount returned. Cents."""
    status: RefundStatus
    """PROCESSING until the rail has answered, then RETURNED or ERROR."""
    flow: Direction
    """OUT: you return what you received. IN: what you sent is returned to you."""
    reason: RefundReason
    """Why it is returned."""
    description: str | None = None
    """For the payer to read."""
    create_timestamp: datetime
    """When it was accepted."""
    last_modified: datetime
    """When it last changed."""


class InfractionDefence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What you answered to an infraction."""

    text: str
    """Your words."""
    status: DefenceStatus
    refusal: str | None = None
    """Why your institution did not take it: then you may answer again, in time."""
    create_timestamp: datetime
    """When you answered."""


class Infraction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Pix that you received and somebody contests; your institution judges it."""

    id: int
    infraction_id: str
    """Your institution's name for it."""
    end_to_end_id: str
    """The Pix."""
    transfer_id: int
    """Its transfer."""
    charge_id: int | None = None
    """The charge that it has paid."""
    transaction_identification: str | None = None
    """The txid that it names."""
    external_id: str | None = None
    """Your own name for the charge."""
    amount: int
    """How much is contested. Cents."""
    held: int
    """How much of your money is blocked for it. Cents."""
    taken: int
    """How much your institution has given back. Cents."""
    reason: InfractionReason
    situation: InfractionSituation
    words: str | None = None
    """What the payer says."""
    status: InfractionStatus
    open_timestamp: datetime
    """When it was opened."""
    respond_by: datetime
    """Until when you can answer."""
    text_length_max: int
    """How many characters of an answer your institution takes."""
    defence: InfractionDefence | None = None
    """Your answer."""
    create_timestamp: datetime
    """When it was recorded."""
    last_modified: datetime
    """When it last changed."""


class Balance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account's balance."""

    available_funds: int
    """Money that can be spent. Cents."""
    current_funds: int
    """Money in the account, reserved and blocked money included. Cents."""
    able_to_deposit: bool
    """Whether money may come in."""
    able_to_lend: bool
    """Whether the account may lend."""
    able_to_withdraw: bool
    """Whether money may go out."""
    last_modified: datetime
    """When it last changed, reservations included."""


class Transaction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of the account's current funds."""

    id: int
    amount: int
    """How much the funds changed. Cents."""
    impact_type: Direction
    """IN raised them, OUT lowered them."""
    create_timestamp: datetime
    """When it settled."""
    last_modified: datetime
    """The same: a transaction never changes."""


class Statement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account's history: opening balance + lines = closing balance."""

    opening_balance: int
    """The balance before the first line. Cents."""
    closing_balance: int
    """The balance after the last line. Cents."""
    lines: list[StatementLine]
    """Oldest first."""


class StatementLine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change of the account's current funds."""

    id: int
    create_timestamp: datetime
    """When it settled."""
    end_to_end_id: str | None = None
    """The transfer's; of a refund, the original's; others have none."""
    return_identification: str | None = None
    """The refund's; nothing else has one."""
    impact_type: Direction
    """IN raised the balance, OUT lowered it."""
    amount: int
    """How much the balance changed. Cents."""
    running_balance: int
    """The balance after it. Cents."""
    counterparty: Counterparty | None = None
    """The other side; deposits, and what the institution moved by itself, have none."""
    description: str
    """In words; of a refund, its author's own if there are any."""
    external_id: str | None = None
    """Your own name for what it is about."""
    transaction_identification: str | None = None
    """The txid of the QR code, if there was one."""


class Counterparty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The other side of a statement's line."""

    name: str
    """The account's owner."""
    tax_id: str
    """CPF or CNPJ."""
    ispb: str
    """The institution."""


class Endpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where events are posted. The secret is never shown."""

    id: int
    url: str
    """A public https address."""
    event_types: list[EventName]
    """The types of events that are posted to it."""
    status: EndpointStatus
    """``active``; ``inactive``: paused by you; ``disabled``: stopped by the service after 410 or days of failures."""
    create_timestamp: datetime
    """When it was made."""
    last_modified: datetime
    """When it last changed."""


class Delivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event on its way to one endpoint."""

    id: int
    endpoint_id: int
    """The endpoint that it goes to."""
    event_id: int
    """The event that it delivers."""
    status: DeliveryStatus
    """``pending`` until an attempt succeeds (``delivered``) or the last one fails (``failed``)."""
    attempts: list[DeliveryAttempt]
    """Oldest first."""


class DeliveryAttempt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One POST and what came of it."""

    number: int
    """From 1; redelivery counts on."""
    time: datetime
    """When it began."""
    status_code: int | None = None
    """The answer's status, if there was an answer."""
    duration: str
    """From looking up the name to the last byte."""
    response: str
    """The first KiB of the answer."""
    error: str | None = None
    """Why it failed."""


class Replayed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What will be sent again."""

    replayed: int
    """The number of events."""


class PublishedKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public key as a JWK (RFC 7517)."""

    kid: str
    """Its name, as in the headers of what it signed."""
    kty: str
    """The key's family."""
    crv: str
    """The key's curve."""
    x: str
    """The point's x, base64url."""
    y: str
    """The point's y, base64url."""
    alg: str
    """The algorithm it signs with."""
    use: str
    """What it is used for."""


class KeySet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JWK set (RFC 7517)."""

    keys: list[PublishedKey]
    """The latest first."""


class CurrentKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The key that signs now, and all that are needed to verify what was signed before."""

    kid: str
    """Its name, as in the headers of what it signed."""
    kty: str
    """The key's family."""
    crv: str
    """The key's curve."""
    x: str
    """The point's x, base64url."""
    y: str
    """The point's y, base64url."""
    alg: str
    """The algorithm it signs with."""
    use: str
    """What it is used for."""
    pem: str
    """The same key as PEM."""
    keys: list[PublishedKey]
    """Every key still needed to verify something, this one included."""


class ServerMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What OAuth 2 libraries read about this server (RFC 8414)."""

    issuer: str
    """As ``iss`` in tokens."""
    token_endpoint: str
    """Where tokens are had."""
    jwks_uri: str
    """The keys that verify tokens."""
    scopes_supported: list[str]
    """All scopes that there are."""
    response_types_supported: list[str]
    """``none``: there is no page on which a person signs in."""
    grant_types_supported: list[str]
    """``client_credentials``."""
    token_endpoint_auth_methods_supported: list[str]
    """How a client may name itself."""
    tls_client_certificate_bound_access_tokens: bool
    """Whether the token of a client with a certificate works with that certificate alone (RFC 8705)."""
    service_documentation: str
    """The documentation for people."""


class Liveness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process answers."""

    status: str | None = None
    """``alive``, always: a process that is not does not answer."""


class Readiness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process should get requests."""

    status: ReadinessStatus
    """``not ready`` comes with 503."""
    error: str | None = None
    """The checks that failed, and why."""


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the service."""

    status: HealthStatus
    """``unhealthy`` without its database; ``degraded`` if anything else fails."""
    duration: str
    """How long all checks took."""
    timestamp: datetime
    """When the checks were made."""
    checks: dict[str, CheckResult]
    """By name: ``database``, ``disk``, ``clock``, ``rail``, ``webhooks``, ``signing_key``, ``partitions``, ``database_loss``,
    ``books``, ``feed``, where a standby is read from ``standby``, and in live mode ``settings`` and
    ``institutions``."""
    system: SystemInfo
    """The process that answered."""


class CheckResult(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One check and its result."""

    status: HealthStatus
    """The check's result."""
    duration: str
    """How long the check took."""
    error: str | None = None
    """The failure, if there is one."""


class SystemInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process that answered."""

    go_version: str
    """The runtime and its version."""
    mem_alloc_mb: int
    """Resident memory."""
    mem_sys_mb: int
    """Resident memory."""
    mem_total_mb: int
    """Resident memory at its peak."""
    num_cpu: int
    """Cores of the machine."""
    num_gc: int
    """Collections of the garbage collector."""
    num_goroutine: int
    """asyncio tasks."""
    uptime: str
    """Since the process started."""
    version: str
    """The program's version."""
