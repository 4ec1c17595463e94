"""A block: money that a holder may not spend, because of a contest, a court, or a possible debit by the bank.

::

    available  ──cover──►   blocked      the amount held there, as far as it is available here
    available  ◄──release── blocked
    settlement ──hold──►    blocked      a suspect credit, which is not available before its release
    settlement ◄──end──     blocked      the hold has ended: released, and its transfer credits it then; or returned
    available  ◄──take──    blocked      and goes at once with the refund that the institution made

Only the institution's reports create, change or end a block. ``wanted`` is the amount it claims, ``held`` the amount it has
blocked, ``covered`` the part of that in the holder's account *blocked* here: it rises to ``held`` with money that becomes
available, once there is no deficit. The claim beyond ``held`` has no entry.

A waiting debit of the statement is a block of the account's house (``statement_line``). It holds the debit's sum as far as
available, so that this cannot be paid out meanwhile. An explanation of the line ends the block.
"""

from datetime import datetime
from typing import Final, Literal

from msgspec import Struct, structs

from pixconnect.kernel.rules.block_report import BLOCK_KINDS, BlockKind, BlockTerms
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.event import CreditHold, Event
from pixconnect.kernel.rules.kept_report import Misfit
from pixconnect.kernel.rules.ledger import Account
from pixconnect.kernel.rules.transfer import Transfer, announce_transfer
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_instant

BlockState = Literal["open", "ended"]
StepKind = Literal["covered", "released", "held", "hold_ended", "taken"]

STEP_ACCOUNTS: Final[dict[StepKind, tuple[Account, Account]]] = {
    "covered": ("available", "blocked"),
    "released": ("blocked", "available"),
    "held": ("settlement", "blocked"),
    "hold_ended": ("blocked", "settlement"),
    # Released first: the entry of the institution's refund follows.
    "taken": ("blocked", "available"),
}
"""The debited and the credited account of each step."""


class Block(Struct, frozen=True, kw_only=True):
    id: int
    holder_id: int
    institution_id: int | None  # the account at an institution; ``None`` is the installation's own rail
    kind: BlockKind
    reference: str  # the institution's name of it: for a contest the contest's, for a suspect credit the Pix's
    transfer_id: int | None = None  # the Pix that it concerns, if that is known
    line_id: str | None = None  # the statement line that it is reserved for
    wanted_cents: int
    held_cents: int
    covered_cents: int = 0
    respond_by: datetime | None = None
    until: datetime | None = None  # when it ends by itself, as reported
    source: str  # the report with its present state
    state: BlockState
    reported_at: datetime  # the date of the institution's report: an older one changes nothing
    created_at: datetime
    modified_at: datetime

    @property
    def is_secret(self) -> bool:
        """Whether only its kind and amount are shown."""
        return BLOCK_KINDS[self.kind].is_secret

    @property
    def uncovered_cents(self) -> int:
        return self.held_cents - self.covered_cents

    @property
    def excess_cents(self) -> int:
        """The covered amount beyond the held one, before it is released."""
        return max(0, -self.uncovered_cents)


class BlockStep(Struct, frozen=True, kw_only=True):
    """Money moved into a block or out of it."""

    id: int  # that of its ledger entry
    holder_id: int
    block_id: int
    kind: StepKind
    amount_cents: int
    created_at: datetime
    refund_id: int | None = None  # the refund with which the institution took it
    reported_at: datetime | None = None  # when the institution made the change that it follows


def open_block(
    terms: BlockTerms,
    block_id: int,
    holder_id: int,
    institution_id: int | None,
    source: str,
    reported_at: datetime,
    now: datetime,
) -> Block:
    """Make a newly reported block; nothing is covered yet."""
    return Block(
        id=block_id,
        holder_id=holder_id,
        institution_id=institution_id,
        kind=terms.kind,
        reference=terms.reference,
        # Its ``transfer_id`` is set once the Pix is found, and never changed then (trigger ``keep_block``).
        wanted_cents=terms.wanted_cents,
        held_cents=terms.held_cents,
        respond_by=terms.respond_by,
        until=terms.until,
        source=source,
        # The first report may come after its end: reports come in any order.
        state="open" if terms.wanted_cents else "ended",
        reported_at=reported_at,
        created_at=now,
        modified_at=now,
    )


def open_line_block(block_id: int, holder_id: int, institution_id: int, line: tuple[str, int], now: datetime) -> Block:
    """Make the block of a waiting statement debit, by its id and cents."""
    line_id, cents = line
    return Block(
        id=block_id,
        holder_id=holder_id,
        institution_id=institution_id,
        kind="statement_line",
        # A line may wait again after its block has ended.
        reference=f"line:{block_id}",
        line_id=line_id,
        wanted_cents=cents,
        held_cents=cents,
        source="statement",
        state="open",
        reported_at=now,
        created_at=now,
        modified_at=now,
    )


def change_block(block: Block, terms: BlockTerms, source: str, reported_at: datetime, now: datetime) -> Block:
    """Apply a later report; the covered amount changes by steps."""
    return structs.replace(
        block,
        wanted_cents=terms.wanted_cents,
        held_cents=terms.held_cents,
        respond_by=terms.respond_by,
        until=terms.until,
        source=source,
        state="open" if terms.wanted_cents else "ended",
        reported_at=reported_at,
        modified_at=now,
    )


def open_suspect_credit(
    transfer: Transfer, block_id: int, until: datetime, source: str, reported_at: datetime, now: datetime
) -> Block:
    """Make the block of a suspect credit; the whole Pix goes into it by one step."""
    terms = BlockTerms(
        reference=transfer.end_to_end_id,
        kind="precautionary",
        wanted_cents=transfer.amount_cents,
        held_cents=transfer.amount_cents,
        until=until,
    )
    block = open_block(terms, block_id, transfer.holder_id, transfer.institution_id, source, reported_at, now)
    return structs.replace(block, transfer_id=transfer.id)


def end_block(block: Block, source: str, reported_at: datetime, now: datetime) -> Block:
    """End the block of a suspect credit, or of a line that no longer waits; a step moves its money."""
    errors.ensure(block.state == "open", block.state)
    return structs.replace(
        block, wanted_cents=0, held_cents=0, state="ended", source=source, reported_at=reported_at, modified_at=now
    )


def announce_hold(transfer: Transfer, block: Block, charge: Charge | None, event_id: int) -> Event:
    hold = CreditHold(
        deliver="NOT_YET",
        until=format_instant(errors.require(block.until, "a suspect credit is held for so long")),
        charge_id=transfer.charge_id,
        transaction_identification=transfer.txid,
        external_id=charge and charge.external_id,
    )
    return announce_transfer(transfer, event_id, name="transfer.in.held", announced_at=block.created_at, hold=hold)


def take_step(block: Block, kind: StepKind, amount_cents: int, now: datetime) -> Block:
    # The trigger ``check_block_steps`` adds up the steps again; here an error still belongs to one request, and not to a batch.
    covered_cents = block.covered_cents + (amount_cents if kind in {"covered", "held"} else -amount_cents)
    errors.ensure(covered_cents >= 0, "a block releases at most its covered amount")
    return structs.replace(block, covered_cents=covered_cents, modified_at=now)


def find_block_misfit(block: Block | None, terms: BlockTerms, holder_id: int, reported_at: datetime) -> Misfit | None:
    """Find why a report of a block is implausible; an unknown block may have any state."""
    if block is None:
        # Reports about money alone need no earlier one.
        if not BLOCK_KINDS[terms.kind].is_of_pix:
            return None
        explanation = f"blocks money for {terms.reference}, and nothing of that name is contested or held here"
        return Misfit(reason="unknown_order", explanation=explanation)
    # One name is one block for ever: the same name for another holder or another reason is something else, for an operator.
    if (block.kind, block.holder_id) != (terms.kind, holder_id):
        explanation = f"the block {terms.reference} was {block.kind} of holder {block.holder_id} before"
        return Misfit(reason="changed_repeat", explanation=explanation)
    # An older report may contain any earlier state.
    if reported_at > block.reported_at and block.state == "ended" and terms.wanted_cents:
        return Misfit(reason="contradiction", explanation=f"the block {terms.reference} has ended, and is reported as open")
    # It was never available, and goes as a whole: with the transfer that credits it, or with its return.
    if reported_at > block.reported_at and block.kind == "precautionary" and terms.held_cents != block.held_cents:
        explanation = f"the suspect credit {terms.reference} is held whole until it is released or returned"
        return Misfit(reason="contradiction", explanation=explanation)
    return None
