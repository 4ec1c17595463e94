"""``pixconnect balance``: what is in the account."""

from __future__ import annotations

from pixconnect.cli.frame import records
from pixconnect.cli.frame.output import Json
from pixconnect.cli.integrator.session import open_session


def balance(*, json: Json = False) -> None:
    """Print the account's balance, and how much of it is available."""
    with open_session() as session:
        records.show(session.client.balance(), as_json=json)
