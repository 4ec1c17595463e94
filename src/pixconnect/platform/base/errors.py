"""The errors that a caller can get, as one tree; rules stand in the order in which they are judged. Features add rules.

``doors/api/envelope.py`` gives each code its HTTP status, 422 to every rule; ``make docs`` writes the table of
``docs/reference/errors.md`` from both. Nothing here knows about HTTP.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Final, TypeVar

from msgspec import Struct

from pixconnect.platform.base.clock import RatePolicy

Present = TypeVar("Present")


class InvariantBroken(AssertionError):
    """An invariant is violated: our defect, and nothing may be written."""


def ensure(holds: object, what: object) -> None:
    # Raised and not asserted: `python -O` leaves assertions out.
    if not holds:
        raise InvariantBroken(what)


def require(value: Present | None, what: object) -> Present:
    if value is None:
        raise InvariantBroken(what)
    return value


def found(value: Present | None, message: str) -> Present:
    if value is None:
        raise NotFound(message)
    return value


class PixConnectError(Exception):
    """Any answer that is not a success."""

    # Messages are for developers: they name the field and the rule, and never hold a secret, a key's owner or a tax id.

    code: ClassVar[str]

    def __init_subclass__(cls, *, has_code: bool = True) -> None:
        # By class name. An error that another module derives from one of these has its code, unless it is a feature's rule.
        if has_code and (cls.__module__ == __name__ or RuleBroken in cls.__bases__):
            cls.code = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Refusal(PixConnectError, has_code=False):
    """The request is refused, and nothing was done."""


class BadRequest(Refusal):
    """The body, the path or the query does not have the declared shape."""


class Violation(Struct, frozen=True, kw_only=True):
    property: str  # with its path, such as ``cob.loc.id``; a parameter by its bare name
    reason: str  # in Portuguese, for developers
    value: str | None = None  # as sent; ``None`` if missing


class Violated(BadRequest, has_code=False):
    """A request violates rules of its entity, in its form or in the present state."""

    def __init__(self, entity: str, rows: Sequence[Violation]) -> None:
        super().__init__(f"{entity}: {'; '.join(row.property for row in rows) or 'the body must be a JSON object'}")
        self.entity = entity
        self.rows = rows


class Unauthorized(Refusal):
    """The credentials or the token are missing, wrong, expired, or of a client since disabled."""


class Forbidden(Refusal):
    """The token lacks the operation's scope."""


class NotFound(Refusal):
    """There is no such path, or no such resource of this holder."""


class MethodNotAllowed(Refusal):
    """The path exists and does not take this method."""

    def __init__(self, message: str, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class CursorExpired(Refusal):
    """Events after the cursor are no longer kept, or were lost with another database."""


class PayloadTooLarge(Refusal):
    """The body is over 64 KiB; of a token request, over 4 KiB."""


class RateLimited(Refusal):
    """A rate limit was reached: failed token requests, key look-ups, requests in a minute, or public requests of an address."""

    def __init__(self, message: str, retry_after_s: int, policy: RatePolicy | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.policy = policy


class RuleBroken(Refusal, has_code=False):
    """The request is well formed and against a rule of the scheme, of the account or of the service."""


class ExternalIdConflict(RuleBroken):
    """The ``external_id`` was already used with other contents."""


class AmountOutOfRange(RuleBroken):
    """The amount is below 1 cent or above 999 999 999 999 cents."""


class LimitExceeded(RuleBroken):
    """A limit of the holder, or of outgoing money on its account at an institution, would be exceeded."""


class InvalidPixKey(RuleBroken):
    """The key does not have the form of its type, or its check digits are wrong."""


class PixKeyNotOwned(RuleBroken):
    """The charge is for a key that is not the holder's."""


class PixKeyNotFound(RuleBroken):
    """The directory has no such key, or the rail resolves only our own keys."""


class InvalidTaxId(RuleBroken):
    """Not a CPF of 11 digits or a CNPJ of 14 characters, without a mask and with right check digits."""


class InvalidAccount(RuleBroken):
    """The branch, account or ISPB does not have a valid form."""


class InvalidQrCode(RuleBroken):
    """The code is no payable Pix code, its location serves no valid payload, or it is ours and cannot be paid."""


class QrCodeExpired(RuleBroken):
    """The charge behind the code has expired or was removed."""


class QrCodeAlreadyPaid(RuleBroken):
    """The charge behind the code was paid."""


class AmountMismatch(RuleBroken):
    """The code carries another amount, or the rail returns a payment only as a whole."""


class SameAccount(RuleBroken):
    """Payer and payee are the same account."""


class HolderBlocked(RuleBroken):
    """The holder may not deposit, or may not withdraw."""


class OriginalNotRefundable(RuleBroken):
    """The original is not a Pix that this holder received and that has settled."""


class RefundExceedsOriginal(RuleBroken):
    """The refunds together would be more than the original."""


class RefundWindowClosed(RuleBroken):
    """More than 90 days have passed since the original settled."""


class RefundInfractionOpen(RuleBroken):
    """The payer contests the original: until the institution has decided, only the institution returns the money."""


class InsufficientFunds(RuleBroken):
    """The account's available balance is smaller than the amount, or the account has a deficit."""


class InvalidWebhookUrl(RuleBroken):
    """The URL is not https, cannot be resolved, or leads to an address that webhooks may not reach."""


RULES: Final = tuple(RuleBroken.__subclasses__())
"""Without those of features."""


class ServiceUnavailable(Refusal):
    """A system that is needed cannot be reached, or there is more to do than can be answered in time. Nothing was done.

    Args:
        may_be_done: The same request may have been done before a database was restored.
    """

    def __init__(self, message: str, retry_after_s: int = 1, *, may_be_done: bool = False) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.may_be_done = may_be_done


class OutcomeUnknown(PixConnectError):
    """It may have been done: a commit was lost, or a restored database lost the earlier request."""

    # The message names the external_id and asks to repeat the request under it.

    def __init__(self, message: str, txid: str | None = None) -> None:
        super().__init__(message)
        self.txid = txid  # for a charge of the standard's door, which the caller repeats under its txid


class InternalError(PixConnectError):
    """Our defect. The message never contains details."""
