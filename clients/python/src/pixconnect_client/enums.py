"""The enumerations of the OpenAPI document. Each member equals its text: ``charge.status == "APPROVED"``."""

from __future__ import annotations

from pixconnect_client._open_enum import OpenEnum


class ChargeStatus(OpenEnum):
    APPROVED = "APPROVED"
    EXPIRED = "EXPIRED"
    PENDING = "PENDING"
    RETURNED = "RETURNED"


class TransferStatus(OpenEnum):
    CANCELLED = "CANCELLED"
    CONFIRMED = "CONFIRMED"
    ERROR = "ERROR"
    PROCESSING = "PROCESSING"
    RETURNED = "RETURNED"


class RefundStatus(OpenEnum):
    ERROR = "ERROR"
    PROCESSING = "PROCESSING"
    RETURNED = "RETURNED"


class PaymentStatus(OpenEnum):
    CONFIRMED = "CONFIRMED"
    ERROR = "ERROR"
    PROCESSING = "PROCESSING"


class Direction(OpenEnum):
    """IN credits you, OUT debits you."""

    IN = "IN"
    OUT = "OUT"


class MemberCertainty(OpenEnum):
    """Whether a value about a party is complete, masked, or unknown."""

    KNOWN = "known"
    MASKED = "masked"
    UNKNOWN = "unknown"


class WaitsFor(OpenEnum):
    """What a transfer waits for: an operator of the service, a person at the institution, or the end of a suspicion there."""

    OPERATOR = "operator"
    APPROVAL = "approval"
    FUNDS = "funds"
    INSTITUTION = "institution"


class ReceiptKind(OpenEnum):
    """The kind of operation that a receipt shows."""

    TRANSFER = "transfer"
    REFUND = "refund"


class CodeKind(OpenEnum):
    """How the payer identified the account."""

    DYNAMIC_CODE = "dynamic_code"
    STATIC_CODE = "static_code"
    KEY = "key"
    ACCOUNT = "account"


class InitiationType(OpenEnum):
    """How the payee was identified."""

    KEY = "KEY"
    MANUAL = "MANUAL"
    QRCODE = "QRCODE"


class DeductionKind(OpenEnum):
    SUM = "sum"
    PERCENTAGE = "percentage"


class InterestKind(OpenEnum):
    """A month has 30 calendar days or 21 business days, a year 365 or 252."""

    SUM_A_DAY = "sum_a_day"
    PERCENTAGE_A_DAY = "percentage_a_day"
    PERCENTAGE_A_MONTH = "percentage_a_month"
    PERCENTAGE_A_YEAR = "percentage_a_year"
    SUM_A_BUSINESS_DAY = "sum_a_business_day"
    PERCENTAGE_A_BUSINESS_DAY = "percentage_a_business_day"
    PERCENTAGE_A_MONTH_OF_BUSINESS_DAYS = "percentage_a_month_of_business_days"
    PERCENTAGE_A_YEAR_OF_BUSINESS_DAYS = "percentage_a_year_of_business_days"


class DiscountKind(OpenEnum):
    SUM_UNTIL_A_DATE = "sum_until_a_date"
    PERCENTAGE_UNTIL_A_DATE = "percentage_until_a_date"
    SUM_A_DAY = "sum_a_day"
    SUM_A_BUSINESS_DAY = "sum_a_business_day"
    PERCENTAGE_A_DAY = "percentage_a_day"
    PERCENTAGE_A_BUSINESS_DAY = "percentage_a_business_day"


class KeyType(OpenEnum):
    CPF = "CPF"
    CNPJ = "CNPJ"
    PHONE = "PHONE"
    EMAIL = "EMAIL"
    EVP = "EVP"


class AccountType(OpenEnum):
    CHECKING = "CHECKING"
    SAVINGS = "SAVINGS"
    SALARY = "SALARY"
    TRANSACTIONAL = "TRANSACTIONAL"


class RefundReason(OpenEnum):
    """MD06 requested by the payer, BE08 bank error, FR01 fraud, SL02 failed withdrawal or change."""

    MD06 = "MD06"
    BE08 = "BE08"
    FR01 = "FR01"
    SL02 = "SL02"


class InfractionReason(OpenEnum):
    """Fraud against the payer, or an operational flaw."""

    FRAUD = "fraud"
    OPERATIONAL_FLAW = "operational_flaw"


class InfractionSituation(OpenEnum):
    """The situation, as the directory of keys (DICT) defines it."""

    SCAM = "scam"
    ACCOUNT_TAKEOVER = "account_takeover"
    COERCION = "coercion"
    FRAUDULENT_ACCESS = "fraudulent_access"
    OTHER = "other"


class DefenceStatus(OpenEnum):
    """SENDING until your institution has confirmed or rejected the answer, then SENT or REFUSED."""

    SENDING = "SENDING"
    SENT = "SENT"
    REFUSED = "REFUSED"


class InfractionStatus(OpenEnum):
    """The state of an infraction. TAKEN and RELEASED are final."""

    OPEN = "OPEN"
    ANSWERED = "ANSWERED"
    TAKEN = "TAKEN"
    RELEASED = "RELEASED"


class MovementKind(OpenEnum):
    """The kind of movement that an institution makes; ``by_hand`` is a person in its app."""

    FEE = "fee"
    WIRE = "wire"
    BOLETO = "boleto"
    BY_HAND = "by_hand"
    REVERSAL = "reversal"
    JUDICIAL = "judicial"
    OTHER = "other"


class MovementStatus(OpenEnum):
    POSTED = "POSTED"
    PROCESSING = "PROCESSING"


class EndpointStatus(OpenEnum):
    """``inactive``: paused by you; ``disabled``: stopped by the service after 410 or days of failures."""

    ACTIVE = "active"
    INACTIVE = "inactive"
    DISABLED = "disabled"


class DeliveryStatus(OpenEnum):
    DELIVERED = "delivered"
    FAILED = "failed"
    PENDING = "pending"


class HealthStatus(OpenEnum):
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


class ReadinessStatus(OpenEnum):
    NOT_READY = "not ready"
    READY = "ready"


class ResourceKind(OpenEnum):
    """The type of resource of an event."""

    CHARGE = "charge"
    TRANSFER = "transfer"
    REFUND = "refund"
    MOVEMENT = "movement"
    ADJUSTMENT = "adjustment"
    INFRACTION = "infraction"


class FaultOperation(OpenEnum):
    """The kind of network message, or of request to a simulated institution, that a fault affects."""

    CALLBACK = "callback"
    FACE_READ = "face_read"
    FACE_TOKEN = "face_token"  # noqa: S105  no password
    FACE_WRITE = "face_write"
    LOOKUP = "lookup"
    PAYMENT = "payment"
    QUERY = "query"
    REFUND = "refund"
    RESOLVE = "resolve"
    RETURN = "return"
    SUBMIT = "submit"


class StatementFormat(OpenEnum):
    CAMT053 = "camt053"
    CSV = "csv"
    JSON = "json"
    OFX = "ofx"


class EventName(OpenEnum):
    QRCODE_PENDING = "qrcode.pending"
    QRCODE_APPROVED = "qrcode.approved"
    QRCODE_EXPIRED = "qrcode.expired"
    TRANSFER_IN_PROCESSING = "transfer.in.processing"
    TRANSFER_IN_CONFIRMED = "transfer.in.confirmed"
    TRANSFER_IN_ERROR = "transfer.in.error"
    TRANSFER_OUT_PROCESSING = "transfer.out.processing"
    TRANSFER_OUT_CONFIRMED = "transfer.out.confirmed"
    TRANSFER_OUT_ERROR = "transfer.out.error"
    REFUND_IN_PROCESSING = "refund.in.processing"
    REFUND_IN_RETURNED = "refund.in.returned"
    REFUND_IN_ERROR = "refund.in.error"
    REFUND_OUT_PROCESSING = "refund.out.processing"
    REFUND_OUT_RETURNED = "refund.out.returned"
    REFUND_OUT_ERROR = "refund.out.error"
    MOVEMENT_POSTED = "movement.posted"
    TRANSFER_IN_COMPLETED = "transfer.in.completed"
    CHARGE_DIVERGED = "charge.diverged"
    ADJUSTMENT_POSTED = "adjustment.posted"
    TRANSFER_OUT_WAITING = "transfer.out.waiting"
    INFRACTION_OPENED = "infraction.opened"
    INFRACTION_ANSWERED = "infraction.answered"
    INFRACTION_TAKEN = "infraction.taken"
    INFRACTION_RELEASED = "infraction.released"
    INFRACTION_REMINDED = "infraction.reminded"
    TRANSFER_IN_HELD = "transfer.in.held"


class Divergence(OpenEnum):
    """How a payment at an institution differs from its charge."""

    EXPIRED = "EXPIRED"
    REMOVED = "REMOVED"
    OTHER_AMOUNT = "OTHER_AMOUNT"
    PAID_BEFORE = "PAID_BEFORE"
    NEVER_OPENED = "NEVER_OPENED"


class ErrorCode(OpenEnum):
    """Error codes of the service."""

    BAD_REQUEST = "BAD_REQUEST"
    UNAUTHORIZED = "UNAUTHORIZED"
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    METHOD_NOT_ALLOWED = "METHOD_NOT_ALLOWED"
    PAYLOAD_TOO_LARGE = "PAYLOAD_TOO_LARGE"
    EXTERNAL_ID_CONFLICT = "EXTERNAL_ID_CONFLICT"
    AMOUNT_OUT_OF_RANGE = "AMOUNT_OUT_OF_RANGE"
    LIMIT_EXCEEDED = "LIMIT_EXCEEDED"
    INVALID_PIX_KEY = "INVALID_PIX_KEY"
    PIX_KEY_NOT_OWNED = "PIX_KEY_NOT_OWNED"
    PIX_KEY_NOT_FOUND = "PIX_KEY_NOT_FOUND"
    INVALID_TAX_ID = "INVALID_TAX_ID"
    INVALID_ACCOUNT = "INVALID_ACCOUNT"
    INVALID_QR_CODE = "INVALID_QR_CODE"
    QR_CODE_EXPIRED = "QR_CODE_EXPIRED"
    QR_CODE_ALREADY_PAID = "QR_CODE_ALREADY_PAID"
    AMOUNT_MISMATCH = "AMOUNT_MISMATCH"
    SAME_ACCOUNT = "SAME_ACCOUNT"
    HOLDER_BLOCKED = "HOLDER_BLOCKED"
    ORIGINAL_NOT_REFUNDABLE = "ORIGINAL_NOT_REFUNDABLE"
    REFUND_EXCEEDS_ORIGINAL = "REFUND_EXCEEDS_ORIGINAL"
    REFUND_WINDOW_CLOSED = "REFUND_WINDOW_CLOSED"
    REFUND_INFRACTION_OPEN = "REFUND_INFRACTION_OPEN"
    INFRACTION_ANSWERED = "INFRACTION_ANSWERED"
    INFRACTION_CLOSED = "INFRACTION_CLOSED"
    INSUFFICIENT_FUNDS = "INSUFFICIENT_FUNDS"
    INVALID_WEBHOOK_URL = "INVALID_WEBHOOK_URL"
    RATE_LIMITED = "RATE_LIMITED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    CURSOR_EXPIRED = "CURSOR_EXPIRED"
