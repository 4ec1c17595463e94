"""``pixconnect institution close`` and ``confirm``: what one operator proposes and another one does."""

from __future__ import annotations

from pathlib import Path

from pixconnect.cli.frame import operating, output, terminal
from pixconnect.cli.frame.output import Json
from pixconnect.cli.operator.institution_days import load_statement
from pixconnect.cli.operator.institution_opening import AccountName
from pixconnect.domain.institutions.account import InstitutionAccount
from pixconnect.domain.institutions.proposal import Proposal, ProposedAct, say_proposal
from pixconnect.usecases.frame.context import Operator, Writer
from pixconnect.usecases.institutions import closing as closing_usecases
from pixconnect.usecases.proof import proposal as proposal_usecases


def close(name: AccountName, *, statement: Path, json: Json = False) -> None:
    """Propose to close an account whose institution is gone for good; another operator confirms it.

    Args:
        statement: Its final statement file, which is read as any other, and tells the balance at its end.
    """
    content = load_statement(statement)

    async def do(operator: Operator, writes: Writer) -> Proposal:
        return await closing_usecases.propose_closing(operator, writes, name, content)

    proposed = operating.run_writing(do)
    output.show(
        dict(name=name, act=proposed.act, **proposed.proposal, confirmable_at=proposed.confirmable_at), as_json=json
    )


def confirm(name: AccountName, *, act: ProposedAct | None = None, code: str | None = None) -> None:
    """Do what another operator has proposed for an account; `institution show` says what that is, and its code.

    Args:
        act: Which of what waits, where several do and no code says it.
        code: That of what you have read: an adjustment, or how an order ended, is not confirmed without, since another may have
            taken its place.
    """

    async def do(operator: Operator, writes: Writer) -> tuple[InstitutionAccount, Proposal]:
        return await proposal_usecases.confirm_proposal(operator, writes, name, act, code)

    account, proposal = operating.run_writing(do)
    terminal.say(terminal.on_one_line(f"{account.name}: confirmed: {say_proposal(proposal)}"))
