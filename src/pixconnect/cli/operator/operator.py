"""``pixconnect operator``: the console's operators, and operators' access to what holders own.

Without that word a verb is one holder's.
"""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.cli.frame import operating, output, qr_code, terminal
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.settings import read_settings
from pixconnect.domain.identity.console import Role
from pixconnect.local import sandbox_file
from pixconnect.store.identity.console import ConsoleOperator
from pixconnect.usecases.identity import console_session, operator_access
from pixconnect.usecases.identity.operator_access import IssuedOperator

app = App(name="operator", help="Operators' access to the console, and to what holders own.")
app.command("pixconnect.cli.operator.endpoint:app", name="endpoint", help="Manage holders' webhook endpoints.")
app.command("pixconnect.cli.operator.charge:app", name="charge", help="The charges of holders.")
app.command("pixconnect.cli.operator.transfer:app", name="transfer", help="Transfers that wait for an operator's yes.")

Name = Annotated[str, Parameter(help="The operator.")]


@app.command
def add(*, name: Name, role: Role = "reader", json: Json = False) -> None:
    """Make an account for the console; prints its password, second factor and recovery codes, which are shown only once.

    Args:
        role: A `reader` sees everything and changes nothing; an `operator` acts too.
    """
    _show_issued(operating.run(lambda context: operator_access.add_operator(context, name, role)), as_json=json)


@app.command
def reset(*, name: Name, json: Json = False) -> None:
    """Give an operator a new password, second factor and recovery codes, and end the operator's sessions at once."""
    _show_issued(operating.run(lambda context: operator_access.reset_operator(context, name)), as_json=json)


@app.command
def remove(*, name: Name, json: Json = False) -> None:
    """Remove an operator's account and end its sessions at once. What the operator did stays in the audit."""
    removed = operating.run(lambda context: operator_access.remove_operator(context, name))
    output.show(_shown(removed), as_json=json)


@app.command(name="list")
def list_operators(*, json: Json = False) -> None:
    """Print who may sign in to the console."""
    found = operating.run(operator_access.list_operators)
    output.show_list("operators", [_shown(operator) for operator in found], as_json=json)


@app.command
def link(*, json: Json = False) -> None:
    """Sandbox: print a link that lets one browser in to the console, once, within twelve hours."""
    token = operating.run(console_session.make_link)
    file = sandbox_file.read(read_settings().home_path)
    shown: output.Shown = {"token": token}
    # If no sandbox has run on this home, this verb does not know the console's address.
    if file is not None:
        shown = {"link": f"{file.console_url}/enter?token={token}", **shown}
    output.show(shown, as_json=json)


def _show_issued(issued: IssuedOperator, *, as_json: bool) -> None:
    secrets = output.pick(issued, "password totp_secret totp_url") | {"recovery_codes": " ".join(issued.recovery_codes)}
    output.show(_shown(issued.operator) | secrets, as_json=as_json)
    # For the telephone; a pipe has no camera in front of it.
    if not as_json and terminal.is_terminal():
        for line in qr_code.draw(issued.totp_url) or ():
            terminal.notice(line)


def _shown(operator: ConsoleOperator) -> output.Shown:
    left = {"recovery_codes_left": len(operator.recovery_hashes)}
    return output.pick(operator, "name role created_at reset_at") | left
