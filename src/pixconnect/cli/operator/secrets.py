"""``pixconnect secrets``: replace the secret key after it may have leaked."""

from cyclopts import App

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.failures import CommandError
from pixconnect.cli.frame.output import Json
from pixconnect.usecases.identity import secret_key as secret_key_usecases

_NAMED_MAX = 10

app = App(name="secrets", help="Reseal stored secrets after a change of the secret key.")


@app.command
def reseal(*, json: Json = False) -> None:
    """Encrypt with PIXCONNECT_SECRET_KEY all that another key encrypted; prints what was done and what is left.

    The service keeps running meanwhile. If this command is interrupted, run it again: it continues where it stopped.
    """
    # It judges every secret by itself, and names those that no key opens.
    done = operating.run_with_other_key(secret_key_usecases.reseal)
    broken = done.broken
    kinds = ("webhook_endpoints", "signing_keys", "authorities", "operators", "institution_accounts")
    resealed = output.pick(done, " ".join(f"{kind}_resealed={kind}_count" for kind in kinds))
    output.show(resealed | {"secrets_left": len(broken), "clients_left": done.clients_left_count}, as_json=json)
    # The result is printed all the same; the exit status says that something is left to do.
    if broken:
        raise CommandError(
            f"neither key opens {', '.join(broken[:_NAMED_MAX])}{', ...' if len(broken) > _NAMED_MAX else ''}: "
            "set PIXCONNECT_SECRET_KEY_PREVIOUS to the key that sealed it, or give it a new secret; what ends in "
            ":sending needs PIXCONNECT_SENDING_SECRET_KEY, and its previous one"
        )


@app.command(name="clients-left")
def clients_left(*, json: Json = False) -> None:
    """Print the clients that have not logged in since the secret key was replaced: they still need the previous one."""
    clients = operating.run(secret_key_usecases.list_clients_left)
    shown = [output.pick(one, "client_id holder_id name disabled_at") for one in clients]
    output.show_list("clients", shown, as_json=json)
