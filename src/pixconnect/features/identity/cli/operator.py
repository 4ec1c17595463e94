"""``pixconnect operator``: the console's operators, and operators' access to holders' resources.

Without that word a verb is for one holder.
"""

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import operating, output, qr_code, terminal
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.settings import read_settings
from pixconnect.features.identity.service import console_session
from pixconnect.features.identity.service.console_session import IssuedOperator
from pixconnect.features.identity.tables.console import ConsoleOperator
from pixconnect.kernel.feature import find_module, list_verbs
from pixconnect.kernel.rules.access import Role
from pixconnect.platform.local import home

app = App(name="operator", help="Operators' access to the console and to holders' resources.")
for _verb in list_verbs("below operator"):
    app.command(find_module(_verb.place), name=_verb.name, help=_verb.help)

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
    output.show({**_shown(removed), "status": "removed"}, as_json=json)


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
