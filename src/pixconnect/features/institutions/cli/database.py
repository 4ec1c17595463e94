"""``pixconnect database``: the server under the service, and how durable it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import App, Parameter
from msgspec import structs

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.output import Json
from pixconnect.features.institutions.cli.opening import make_opener
from pixconnect.features.institutions.service import loss
from pixconnect.kernel.flows import installation as installation_usecases
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.tables.database_loss import Loss

app = App(name="database", help="Check the service's database.")


@app.command
def show(*, json: Json = False) -> None:
    """Print the database's mode, its server, and the settings for durable answers."""
    output.show(dict(operating.run(installation_usecases.describe_database)), as_json=json)


@app.command
def recovered(
    *,
    institution: str | None = None,
    statement_was_read: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Confirm that the facts lost by the database are in the books again: accounts send again, and health recovers.

    An account must have been read whole since, which a worker does by itself.

    Args:
        institution: Confirm for this account alone; otherwise for all accounts, and the rail.
        statement_was_read: You have read the statement of accounts whose institution's API has none.
    """
    opener = make_opener()

    async def recover(context: Operator) -> Sequence[Loss]:
        names = [account.name for account in await loss.list_lost(context)] if institution is None else [institution]
        for name in names:
            account = await loss.recover_account(context, opener, name, statement_was_read=statement_was_read)
            terminal.notice(f"{name} is {account.state}")
        return await installation_usecases.close_losses(context) if institution is None else ()

    losses = operating.run(recover)
    output.show_list("losses", [structs.asdict(each) for each in losses], as_json=json)
