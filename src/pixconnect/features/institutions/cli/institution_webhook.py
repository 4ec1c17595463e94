"""``pixconnect institution webhook``: the addresses that an institution calls about incoming money."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import output
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.features.institutions.cli.opening import AccountName, run_with_opener
from pixconnect.features.institutions.service import webhook as webhook_usecases
from pixconnect.features.institutions.service.webhook import RegisteredWebhooks

app = App(name="webhook", help="An account's webhooks registered at the institution.")


@app.command
def show(name: AccountName, *, json: Json = False) -> None:
    """List the registered webhooks, and their owners."""
    _show(run_with_opener(webhook_usecases.read_webhooks, name), json=json)


@app.command(name="set")
def register(
    name: AccountName,
    *,
    replace: Annotated[bool, Parameter(negative=())] = False,
    new_secret: Annotated[bool, Parameter(negative=())] = False,
    json: Json = False,
) -> None:
    """Register our address at the institution for each key: PIXCONNECT_CALLBACK_BASE_URL, the account's name and a secret.

    Args:
        replace: Also replace another registered address, which is saved for restore.
        new_secret: Make another secret; calls to the earlier address are refused.
    """
    there = run_with_opener(webhook_usecases.set_webhooks, name, replaces=replace, has_new_secret=new_secret)
    _show(there, json=json)


@app.command
def restore(name: AccountName, *, json: Json = False) -> None:
    """Restore the webhook that ours replaced, or none."""
    there = run_with_opener(webhook_usecases.restore_webhooks, name)
    _show(there, json=json)


def _show(there: RegisteredWebhooks, *, json: bool) -> None:
    kept = {each.key: each.url for each in there.kept}
    rows: list[Shown] = [
        dict(key=each.key, url=each.url, whose=each.whose or "nobody's", kept=kept.get(each.key or ""))
        for each in there.found
    ]
    if json:
        output.show(dict(address=there.address, webhooks=rows), as_json=True)
    else:
        output.show_list("webhooks", rows, as_json=False)
