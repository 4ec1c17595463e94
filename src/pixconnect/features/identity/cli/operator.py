"""``pixconnect operator``: the console's operators, and operators' access to holders' resources.

Without that word a verb is for one holder.
"""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, qr_code, terminal
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.settings import read_settings
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.approvals import service as approval_usecases
from pixconnect.features.approvals.service import WaitingTransfer
from pixconnect.features.identity.service import console_session
from pixconnect.features.identity.service.console_session import IssuedOperator
from pixconnect.features.identity.tables.console import ConsoleOperator
from pixconnect.features.pix_api.service import charge as standard_charge
from pixconnect.kernel.rules.access import Role
from pixconnect.platform.local import home

app = App(name="operator", help="Operators' access to the console and to holders' resources.")
app.command(
    "pixconnect.features.webhooks.cli.endpoint_operator:app", name="endpoint", help="Manage holders' webhook endpoints."
)
charge_app = App(name="charge", help="The charges of holders.")
app.command(charge_app)
transfer_app = App(name="transfer", help="Transfers that wait for an operator's yes.")
app.command(transfer_app)

Name = Annotated[str, Parameter(help="The operator.")]


@app.command
def add(*, name: Name, role: Role = "reader", json: Json = False) -> None:
    """Make an account for the console; prints its password, second factor and recovery codes, which are shown only once.

    Args:
        role: A `reader` sees everything and changes nothing; an `operator` acts too.
    """
    _show_issued(operating.run(console_session.add_operator, name, role), as_json=json)


@app.command
def reset(*, name: Name, json: Json = False) -> None:
    """Give an operator a new password, second factor and recovery codes, and end the operator's sessions at once."""
    _show_issued(operating.run(console_session.reset_operator, name), as_json=json)


@app.command
def unlock(*, name: Name, json: Json = False) -> None:
    """Unlock an operator after ten wrong codes within a day; `operator list` shows locked accounts.

    Each of those codes came with the right password: unless the operator mistyped them, use `operator reset`.
    """
    output.show(_shown(operating.run(console_session.unlock_operator, name)), as_json=json)


@app.command
def remove(*, name: Name, json: Json = False) -> None:
    """Remove an operator's account and end its sessions at once. The operator's acts stay in the audit."""
    removed = operating.run(console_session.remove_operator, name)
    output.show(_shown(removed), as_json=json)


@app.command(name="list")
def list_operators(*, json: Json = False) -> None:
    """Print the operators of the console."""
    found = operating.run(console_session.list_operators)
    output.show_list("operators", [_shown(operator) for operator in found], as_json=json)


@app.command
def link(*, json: Json = False) -> None:
    """Sandbox: print a link that signs one browser in to the console, once, within twelve hours."""
    token = operating.run(console_session.make_link)
    file = home.read_sandbox_file(read_settings().home_path)
    shown: output.Shown = {"token": token}
    # If no sandbox has run on this home, the console's address is unknown.
    if file is not None:
        shown = {"link": f"{file.console_url}/enter?token={token}", **shown}
    output.show(shown, as_json=json)


def _show_issued(issued: IssuedOperator, *, as_json: bool) -> None:
    secrets = output.pick(issued, "password totp_secret totp_url") | {"recovery_codes": " ".join(issued.recovery_codes)}
    output.show(_shown(issued.operator) | secrets, as_json=as_json)
    # For a phone's camera; not into a pipe.
    if not as_json and terminal.is_terminal():
        for line in qr_code.draw(issued.totp_url) or ():
            terminal.notice(line)


def _shown(operator: ConsoleOperator) -> output.Shown:
    left = {"recovery_codes_left": len(operator.recovery_hashes)}
    return output.pick(operator, "name role is_locked created_at reset_at") | left


@charge_app.command(name="remove")
def remove_charge(
    *, holder_id: HolderId, txid: Annotated[str, Parameter(help="The charge.")], json: Json = False
) -> None:
    """Remove a charge, so that it can no longer be paid. This is permanent: its holder may create another.

    The holder sees it as EXPIRED, or as REMOVIDA_PELO_PSP in the central bank's API, and gets `qrcode.expired`. A paid charge
    cannot be removed, nor one whose payment was accepted and has not settled.

    Args:
        holder_id: Its holder.
    """
    removed = operating.run(standard_charge.remove_charge, holder_id, txid)
    output.show(output.pick(removed, "id txid status"), as_json=json)


TransferId = Annotated[int, WHOLE_NUMBER, Parameter(name="id", help="The transfer.", validator=Number(gte=1, lt=2**53))]


@transfer_app.command(name="list")
def list_to_approve(*, holder_id: HolderId | None = None, json: Json = False) -> None:
    """Print transfers that wait for an operator's approval, soonest deadline first.

    Args:
        holder_id: Of this holder only.
    """
    found = operating.run(approval_usecases.list_waiting_transfers, holder_id)
    output.show_list("transfers", [_shown_waiting(each) for each in found], as_json=json)


@transfer_app.command
def approve(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Approve a waiting transfer; this is permanent. Repeating it changes nothing."""
    _decide(transfer_id, is_approved=True, as_json=json)


@transfer_app.command
def refuse(transfer_id: TransferId, /, *, json: Json = False) -> None:
    """Cancel a waiting transfer and release its money; this is permanent. Repeating it changes nothing.

    The worker releases the money within seconds. If the database was restarted while the transfer waited, the worker queries
    the rail first, and releases the money once the rail reports that the transfer never came: at the latest 12 hours after its
    creation.
    """
    _decide(transfer_id, is_approved=False, as_json=json)


def _decide(transfer_id: int, *, is_approved: bool, as_json: bool) -> None:
    said = operating.run(approval_usecases.decide_transfer, transfer_id, is_approved=is_approved)
    shown: output.Shown = dict(
        id=transfer_id,
        end_to_end_id=said.order_name,
        decision="approved" if said.is_approved else "refused",
        decided_by=said.decided_by,
        decided_at=said.decided_at,
    )
    output.show(shown, as_json=as_json)


def _shown_waiting(each: WaitingTransfer) -> output.Shown:
    payee = each.transfer.counterparty
    return {
        **output.pick(each.transfer, "id holder_id amount_cents"),
        **output.pick(payee, "payee=name tax_id key"),
        "account": f"{payee.ispb} {payee.branch} {payee.account_number}",
        "paid_before": each.paid_count,
        **output.pick(each.pending, "is_above is_new_payee"),
        "held_by": each.hold,
        **output.pick(each.pending, "since"),
        "until": each.order.give_up_at,
    }
