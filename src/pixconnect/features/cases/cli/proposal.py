"""``pixconnect proposal``: one operator's proposals, which another reads and confirms."""

from __future__ import annotations

from typing import Final

from cyclopts import App

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.output import Json
from pixconnect.features.cases.service import adjustment as proposal_usecases
from pixconnect.kernel.rules.proposal import Proposal

app = App(name="proposal", help="Read and confirm what waits for a second operator.")
_COLUMNS: Final = ("code", "subject", "act", "contents", "proposed_by", "confirmable_at", "acts_at", "lapses_at")


@app.command(name="list")
def list_(*, json: Json = False) -> None:
    """Print proposals that wait for a second operator, oldest first."""
    waiting = operating.run(proposal_usecases.list_proposals)
    shown = [
        {"subject": subject, "contents": proposal.contents_text}
        | output.pick(proposal, "code act proposed_by confirmable_at acts_at lapses_at")
        for subject, proposal in waiting
    ]
    output.show_list("proposals", shown, as_json=json, columns=_COLUMNS)


@app.command
def confirm(code: str) -> None:
    """Confirm and execute another operator's proposal.

    Args:
        code: The code of the proposal that you have read in `list`: a later one, which may have replaced it, has another.
    """
    proposal = operating.run_writing(proposal_usecases.confirm_proposal, code)
    terminal.print_line(terminal.on_one_line(f"confirmed: {proposal.text}"))


def show_proposed(proposal: Proposal, *, as_json: bool) -> None:
    """Print a proposal to its operator."""
    output.show(
        dict(act=proposal.act, code=proposal.code, **proposal.contents)
        | output.pick(proposal, "proposed_by confirmable_at"),
        as_json=as_json,
    )
