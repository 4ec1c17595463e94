"""Response records, with the names of the OpenAPI document.

Amounts are cents. Unknown fields are ignored.
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
    """A charge and its QR code."""

    id: int
    amount: int
    """The amount to pay. Cents."""
    key: str
    """The Pix key that receives the payment, normalised."""
    external_id: str
    """Your own id for it, or a generated one."""
    status: ChargeStatus
    """PENDING until it is paid (APPROVED), expires or is removed (both EXPIRED); RETURNED after a full refund."""
    emvqrcps: str
    """The text of the QR code for copy and paste."""
    base64image: str
    """The QR code as a base64 PNG if requested with ``base64=true``, otherwise empty."""
    transaction_identification: str
    """Its txid: its id in the Pix scheme."""
    payer: ChargePayer | None = None
    """The payer that the request named."""


class ChargePayer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The person or company that is asked to pay."""

    name: str
    """Free text."""
    tax_id: str
    """CPF (11 digits) or CNPJ (14 characters), without punctuation."""


class ChargeFine(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fine, added once after the due date."""

    kind: DeductionKind
    """``PERCENTAGE`` is of the amount less the rebate."""
    value: int
    """Cents, or hundredths of a per cent: 250 is R$ 2,50 or 2.5 %."""


class ChargeInterest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Interest, added for each day after the due date."""

    kind: InterestKind
    """A month has 30 calendar or 21 business days, a year 365 or 252."""
    value: int
    """Cents, or hundredths of a per cent."""


class ChargeRebate(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rebate, subtracted on every day."""

    kind: DeductionKind
    """``PERCENTAGE`` is of the amount."""
    value: int
    """Cents, or hundredths of a per cent."""


class ChargeDatedDiscount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A discount until a date."""

    until: date
    """The last day of the discount, at most the due date."""
    value: int
    """Cents, or hundredths of a per cent."""


class ChargeDiscount(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A discount for early payment."""

    kind: DiscountKind
    """Fixed dates, or per day before the due date."""
    value: int | None = None
    """Per day, for a kind by the day. Cents, or hundredths of a per cent."""
    dated: list[ChargeDatedDiscount] | None = None
    """For a kind by date: at most three. The earliest date that has not passed applies."""


class PaidBy(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The payment of a charge."""

    charge_id: int
    transfer_id: int
    """Id of the incoming transfer that paid it."""
    end_to_end_id: str
    """End-to-end id of the transfer."""
    amount: int
    """Cents."""
    status: TransferStatus
    """CONFIRMED, or RETURNED after a full refund."""
    paid_at: datetime
    payer: TransferParty


class Transfer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A Pix that you sent or received."""

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
    """Its id on the network. It stays valid for lookups if the network assigns another one later."""
    external_id: str | None = None
    """Your own id for it; None if incoming."""
    impact_type: Direction
    """IN credits you, OUT debits you."""
    status: TransferStatus
    """PROCESSING, then CONFIRMED or ERROR; CANCELLED if never sent; RETURNED after a full return."""
    transaction_identification: str | None = None
    """The txid of the QR code, if there is one."""


class TransferParty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One side of a transfer."""

    account_number: str
    """With its check digit, without punctuation."""
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
    """The owner's CPF (11 digits) or CNPJ (14 characters), without punctuation."""


class TransferOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a transfer, and its reason."""

    status: TransferStatus
    """The transfer's status."""
    code: str | None = None
    """The code of the network or of the service, if it failed."""
    reason: str | None = None
    """The reason as a sentence."""


class PartyMember(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value about a party, and how far it is known."""

    certainty: MemberCertainty
    """``known``: complete; ``masked``: with asterisks, as the institution sends it; ``unknown``: missing."""
    value: str | None = None
    """The value, unless it is unknown."""


class KnownParty(Struct, frozen=True, kw_only=True):
    """A party of a transfer, as far as it is known. Your own data come from this service."""

    account_number: PartyMember
    account_type: PartyMember
    """Institutions do not send it for payers."""
    bank: PartyMember
    branch: PartyMember
    ispb: PartyMember
    key: PartyMember
    """The Pix key of the payee; unknown for payers."""
    key_type: PartyMember
    name: PartyMember
    tax_id: PartyMember


class TransferParties(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Both parties of a transfer as far as they are known, and its ids."""

    payer: KnownParty
    payee: KnownParty
    end_to_end_id: str
    is_end_to_end_id_ours: bool
    """Whether this id exists only in this service, so that other institutions cannot look it up."""
    transaction_identification: str | None = None
    """Its txid, if there is one."""
    network_transaction_identification: str | None = None
    """The txid that the institution assigned, if it does not accept ours."""
    institution: str | None = None
    """The operator's name of the institution account that holds it."""
    waits_for: WaitsFor | None = None
    """What the transfer waits for: approval by an operator of the service (within 11 hours), approval at the institution, or
    funds at the institution, which can take days. Its status stays ``PROCESSING``."""
    waits_since: datetime | None = None
    """Start of the wait, or when the service first observed it."""


class ReceiptParty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A party on a receipt, as far as it is known."""

    name: str | None = None
    tax_id: str | None = None
    """A CPF with its first three and last two digits masked, or a CNPJ."""
    institution: str | None = None
    ispb: str | None = None
    """The institution's identifier, with which its CNPJ begins."""
    key: str | None = None
    """The payee's Pix key; a CPF is masked here too."""


class Receipt(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The receipt of a settled transfer or refund. It contains no confidential data."""

    kind: ReceiptKind
    id: int
    """Id of the transfer or refund."""
    direction: Direction
    amount: int
    settled_at: datetime
    """The network's time, if known."""
    payer: ReceiptParty
    """For a refund, the party that returned it."""
    payee: ReceiptParty
    end_to_end_id: str | None = None
    """End-to-end id of the Pix, for a refund that of the original; None if the network has none."""
    return_identification: str | None = None
    """Return id of a refund."""
    transaction_identification: str | None = None
    """The txid of the paid QR code, if it has one."""
    code_kind: CodeKind
    amount_returned: int | None = None
    """For a transfer, the amount returned so far."""
    message: str | None = None
    """The message of the payer, or of the party that returned it."""
    is_book: bool
    """Settled within the service, without the network."""
    is_test: bool
    """A sandbox receipt: no money was moved."""


class Refund(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The return of a Pix, in full or in part."""

    id: int
    external_id: str | None = None
    """Your own id for it; None if incoming."""
    return_identification: str
    """Its id on the network. It stays valid for lookups if the network assigns another one later."""
    original_end_to_end_id: str
    """The Pix that is returned."""
    correlation_id: str
    """Shared by all operations on one payment."""
    amount: int
    """The amount returned. Cents."""
    status: RefundStatus
    """PROCESSING, then RETURNED or ERROR."""
    flow: Direction
    """OUT: you return a payment that you received. IN: a payment of yours is returned to you."""
    reason: RefundReason
    """The reason code."""
    description: str | None = None
    """Text for the payer."""
    create_timestamp: datetime
    """When it was accepted."""
    last_modified: datetime
    """When it last changed."""


class RefundOutcome(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a refund, and its reason."""

    status: RefundStatus
    """The refund's status."""
    code: str | None = None
    """The code of the network or of the service, if it failed."""
    reason: str | None = None
    """The reason as a sentence."""


class InfractionDefence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Your answer to an infraction."""

    text: str
    """Your text."""
    status: DefenceStatus
    refusal: str | None = None
    """Why your institution rejected it. You can answer again before the deadline."""
    create_timestamp: datetime
    """When you answered."""


class Infraction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A contested Pix that you received. Your institution decides."""

    id: int
    infraction_id: str
    """Your institution's id for it."""
    end_to_end_id: str
    """End-to-end id of the Pix."""
    transfer_id: int
    """Id of its transfer."""
    charge_id: int | None = None
    """Id of the charge that it paid."""
    transaction_identification: str | None = None
    """Its txid."""
    external_id: str | None = None
    """Your own id for the charge."""
    amount: int
    """The contested amount. Cents."""
    held: int
    """The amount blocked on your account. Cents."""
    taken: int
    """The amount that your institution has returned. Cents."""
    reason: InfractionReason
    situation: InfractionSituation
    words: str | None = None
    """The payer's statement."""
    status: InfractionStatus
    open_timestamp: datetime
    """When it was opened."""
    respond_by: datetime
    """Deadline of your answer."""
    text_length_max: int
    """Maximum length of an answer, in characters."""
    defence: InfractionDefence | None = None
    """Your answer."""
    create_timestamp: datetime
    """When it was recorded."""
    last_modified: datetime
    """When it last changed."""


class Balance(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account's balance."""

    available_funds: int
    """Available money. Cents."""
    current_funds: int
    """Total money, including reserved and blocked money. Cents."""
    able_to_deposit: bool
    """Whether the account can receive money."""
    able_to_lend: bool
    """Whether the account can lend."""
    able_to_withdraw: bool
    """Whether the account can send money."""
    last_modified: datetime
    """Last change, including reservations."""


class Transaction(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of the account's current funds."""

    id: int
    amount: int
    """The amount. Cents."""
    impact_type: Direction
    """IN credits, OUT debits the account."""
    create_timestamp: datetime
    """When it settled."""
    last_modified: datetime
    """The same instant: a transaction never changes."""


class Statement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The account statement: opening balance + lines = closing balance."""

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
    """End-to-end id of the transfer, or of a refund's original; None for other lines."""
    return_identification: str | None = None
    """Return id of a refund; None for other lines."""
    impact_type: Direction
    """IN credits, OUT debits the account."""
    amount: int
    """The amount. Cents."""
    running_balance: int
    """The balance after it. Cents."""
    counterparty: Counterparty | None = None
    """The counterparty; None for deposits and the institution's own movements."""
    description: str
    """A description; for a refund, the text given with it if there is one."""
    external_id: str | None = None
    """Your own id for the operation."""
    transaction_identification: str | None = None
    """The txid of the QR code, if there is one."""


class Counterparty(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counterparty of a statement line."""

    name: str
    """The account's owner."""
    tax_id: str
    """CPF or CNPJ."""
    ispb: str
    """The institution."""


class Endpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook endpoint. The API never returns its secret."""

    id: int
    url: str
    """A public https address."""
    event_types: list[EventName]
    """The subscribed event types."""
    status: EndpointStatus
    """``active``; ``inactive``: paused by you; ``disabled``: by the service, after 410 or five days of failures."""
    create_timestamp: datetime
    """When it was created."""
    last_modified: datetime
    """When it last changed."""


class NewEndpoint(Endpoint, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint that the client has created, with its secret."""

    secret: str
    """It signs the deliveries."""


class Delivery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The delivery of one event to one endpoint."""

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
    """A delivery attempt and its result."""

    number: int
    """Counts from 1, across redeliveries."""
    time: datetime
    """When it began."""
    status_code: int | None = None
    """The response status, if there was a response."""
    duration: str
    """Duration from name resolution to the last byte."""
    response: str
    """The first KiB of the response."""
    error: str | None = None
    """Why it failed."""


class Replayed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a replay."""

    replayed: int
    """The number of events that will be resent."""


class PublishedKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A public key as a JWK (RFC 7517)."""

    kid: str
    """Its key id, as in the headers of signatures."""
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
    """Its use."""


class KeySet(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A JWK set (RFC 7517)."""

    keys: list[PublishedKey]
    """The latest first."""


class CurrentKey(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The current signing key, and all keys that are needed to verify earlier signatures."""

    kid: str
    """Its key id, as in the headers of signatures."""
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
    """All keys that can verify signatures, including this one."""


class ServerMetadata(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """OAuth 2 authorization server metadata (RFC 8414)."""

    issuer: str
    """As ``iss`` in tokens."""
    token_endpoint: str
    """The token endpoint."""
    jwks_uri: str
    """The keys that verify tokens."""
    scopes_supported: list[str]
    """All scopes."""
    response_types_supported: list[str]
    """``none``: there is no interactive login."""
    grant_types_supported: list[str]
    """``client_credentials``."""
    token_endpoint_auth_methods_supported: list[str]
    """How a client authenticates."""
    tls_client_certificate_bound_access_tokens: bool
    """Whether the token of a client with a certificate works with that certificate alone (RFC 8705)."""
    service_documentation: str
    """The documentation for people."""


class Liveness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The process answers."""

    status: str | None = None
    """Always ``alive``."""


class Readiness(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whether this process accepts requests."""

    status: ReadinessStatus
    """``not ready`` comes with 503."""
    error: str | None = None
    """The failed checks and their reasons."""


class Health(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the service."""

    status: HealthStatus
    """``unhealthy`` without the database; ``degraded`` if another check fails."""
    duration: str
    """How long all checks took."""
    timestamp: datetime
    """When the checks were made."""
    checks: dict[str, CheckResult]
    """By name: ``database``, ``disk``, ``clock``, ``rail``, ``workers``, ``webhooks``, ``signing_key``, ``partitions``,
    ``database_loss``, ``books``, ``feed``, where a standby is read from ``standby``, and in live mode ``settings`` and
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
