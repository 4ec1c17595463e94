"""``pixconnect holder succeed``: a holder on another account at an institution."""

from __future__ import annotations

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.operating import TheHolder
from pixconnect.doors.cli.output import Json
from pixconnect.features.institutions.service.succession import succeed_holder


def succeed(*, holder_id: TheHolder, institution: str, account_number: str, branch: str = "0001", json: Json = False) -> None:
    """Open a holder on another account that succeeds one whose company changes its bank.

    The successor gets the clients, keys, webhooks, limits and flags. The former holder starts nothing new; printed codes,
    returns, contests and refunds of its received Pix go on over its account. Clients need a new token. Repeating it changes
    nothing.

    Args:
        institution: The successor's account at an institution; of the same owner.
        account_number: Of the successor: 1 to 20 digits or capital letters, not yet taken.
        branch: 1 to 4 digits.
    """
    from pixconnect.doors.cli.operator import HOLDER_MONEY, describe_holder  # noqa: PLC0415  it lists this verb

    done = operating.run(succeed_holder, holder_id, institution, account_number, branch)
    operating.wait_until_in_force()
    shown: output.Shown = {
        "former_holder_id": done.former.id,
        "keys": ", ".join(key.key for key in done.keys),
        "keys_to_claim": ", ".join(done.keys_to_claim),
        "clients": ", ".join(client.client_id for client in done.clients),
        "endpoints": done.endpoints_count,
    }
    output.show(describe_holder(done.heir) | shown, as_json=json, money=HOLDER_MONEY)
    if done.keys_to_claim:
        terminal.notice(
            f"claim these keys at the bank of {institution}, and name them in its file (`pixconnect institution rotate`): "
            f"until then payments to them arrive on the former account: {', '.join(done.keys_to_claim)}"
        )
    terminal.notice(f"set the bank's webhooks of the new account: `pixconnect institution webhook set {institution}`")
