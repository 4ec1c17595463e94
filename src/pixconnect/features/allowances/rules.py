"""Operators' allowance for outgoing money of an account at an institution: off at first, and raised by two people."""

from datetime import timedelta
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.features.institutions.rules.account import may_lie_on
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.kernel.rules.rail import InitiationType
from pixconnect.platform.base import errors

RAISED_AFTER: Final = timedelta(hours=1)  # minimum time from a proposal of a higher allowance to its confirmation

Payees = Literal["own", "known", "all"]  # the account's owner alone; also payees already paid over the account; any payee
PAYEES: Final[tuple[Payees, ...]] = ("own", "known", "all")  # each permits more payees than those before it
_NAMED_BY: Final = dict[InitiationType, str]((("KEY", "key"), ("MANUAL", "credit_party"), ("QRCODE", "emv")))
"""The member of a request that names the payee."""
_TRANSFER_CENTS: Final = 10_000
_TRANSFERS_DAY_CENTS: Final = 100_000  # the default day's sum once an operator permits transfers


class Allowance(Struct, frozen=True, kw_only=True):
    institution_id: int
    refunds_day_cents: int  # the maximum of refunds in a day of Sao Paulo; 0 is nothing
    allowed_by: str | None = None
    transfer_cents: int = 0  # the maximum of one transfer; 0 is nothing
    transfers_day_cents: int = 0  # the maximum of transfers in a day of Sao Paulo; 0 is nothing
    payees: Payees = "own"


class WantedAllowance(Struct, frozen=True, kw_only=True):
    """An operator's changes to it; ``None`` leaves a member unchanged."""

    refunds_day_cents: int | None = None
    transfer_cents: int | None = None
    transfers_day_cents: int | None = None
    payees: Payees | None = None

    @property
    def sends(self) -> bool:
        """Whether it permits any transfer."""
        limits = (self.transfer_cents, self.transfers_day_cents, self.payees)
        return any(one is not None for one in limits) and 0 not in limits


class TransferAllowance(Struct, frozen=True, kw_only=True):
    """The remaining allowance of an account's transfers today."""

    owner_tax_id: str  # of the account
    transfer_cents: int
    left_cents: int
    payees: Payees


def want(before: Allowance, wanted: WantedAllowance) -> Allowance:
    """Make an allowance with an operator's changes; if it permitted no sending before, unstated sums are small.

    Raises:
        BadRequest: Nothing is given, or an impossible sum.
    """
    changes = {name: value for name, value in structs.asdict(wanted).items() if value is not None}
    if not changes:
        raise errors.BadRequest("allow: give at least one of --refunds, --per-transfer, --per-day and --to")
    sums = dict(refunds=wanted.refunds_day_cents, per_transfer=wanted.transfer_cents, per_day=wanted.transfers_day_cents)
    for name, cents in sums.items():
        if cents is not None and not 0 <= cents <= AMOUNT_MAX_CENTS:
            raise errors.BadRequest(f"{name}: must be from 0 to {AMOUNT_MAX_CENTS} cents")
    is_of_transfers = changes.keys() != {"refunds_day_cents"}
    sends = before.transfer_cents > 0 or before.transfers_day_cents > 0
    if is_of_transfers and not sends and 0 not in (wanted.transfer_cents, wanted.transfers_day_cents):
        changes = dict(transfer_cents=_TRANSFER_CENTS, transfers_day_cents=_TRANSFERS_DAY_CENTS) | changes
    return structs.replace(before, **changes)


def cut(before: Allowance, wanted: Allowance) -> Allowance:
    """Return the part of the change that one operator may make at once: reductions."""
    return structs.replace(
        wanted,
        refunds_day_cents=min(before.refunds_day_cents, wanted.refunds_day_cents),
        transfer_cents=min(before.transfer_cents, wanted.transfer_cents),
        transfers_day_cents=min(before.transfers_day_cents, wanted.transfers_day_cents),
        payees=min(before.payees, wanted.payees, key=PAYEES.index),
    )


def check_refund_day(amount_cents: int, left_cents: int) -> None:
    """Refuse a refund above today's remaining refund allowance of its account."""
    if amount_cents > left_cents:
        raise errors.LimitExceeded(
            f"amount: refunds over this holder's account at its institution are allowed up to {left_cents} cents more today"
        )


def check_transfer_allowance(
    amount_cents: int, initiation_type: InitiationType, payee: Party, left: TransferAllowance, *, is_known: bool
) -> None:
    """Refuse a transfer that may not leave over its account, in this order: its amount, the day's sum, the payee.

    ``is_known`` is whether the payee was paid over the account before.
    """
    there = "over this holder's account at its institution"
    if amount_cents > left.transfer_cents:
        raise errors.LimitExceeded(f"amount: transfers {there} are allowed up to {left.transfer_cents} cents each")
    if amount_cents > left.left_cents:
        raise errors.LimitExceeded(f"amount: transfers {there} are allowed up to {left.left_cents} cents more today")
    # A payee with an unknown owner is not the account's.
    is_owner = payee.tax_id != UNKNOWN_PARTY.tax_id and may_lie_on(left.owner_tax_id, payee.tax_id)
    if left.payees == "all" or (left.payees == "known" and is_known) or is_owner:
        return
    field = _NAMED_BY[initiation_type]
    whom = "its owner" if left.payees == "own" else "its owner and to payees already paid over it"
    raise errors.LimitExceeded(f"{field}: transfers {there} are allowed to {whom} alone")
