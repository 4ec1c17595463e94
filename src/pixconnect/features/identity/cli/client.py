"""``pixconnect client``: the OAuth clients of holders. A secret is printed once, when it is made."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import HolderId, TheHolder
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.records import parse_instant
from pixconnect.doors.cli.settings import read_settings
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.kernel.rules.access import Client, ScopeName, is_client_id
from pixconnect.kernel.tables.origin import Origin
from pixconnect.platform import certificates, jose
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.certificates import Certificate, ClientFiles
from pixconnect.platform.environment import read_named_file


def show_asker(origin: Origin) -> output.Shown:
    return output.pick(origin, "client_id token_id=jti peer request_id operator")


def show_files(files: ClientFiles, home: Path) -> output.Shown:
    return {
        "certificate_file": str(files.certificate_file),
        "key_file": str(files.key_file),
        "both_file": str(files.both_file),
        "pkcs12_file": str(files.pkcs12_file),
        "authority_file": str(certificates.authority_file(home)),
    }


ClientId = Annotated[str, Parameter(help="The client.")]

app = App(name="client", help="Manage holders' OAuth clients.")


@app.command
def create(*, holder_id: HolderId, name: str = "client", scope: operating.Many[ScopeName] = (), json: Json = False) -> None:
    """Make a client; prints its client_id and its client_secret, which is shown only once.

    In live mode its scopes must be named.

    Args:
        holder_id: The holder that it acts for.
        name: Your name for the client.
        scope: The client's permissions; repeat the option for each scope. In the sandbox the default is all scopes.
    """
    issued = operating.run(access_usecases.create_client, holder_id, name, scope)
    output.show(_shown(issued.client, issued.client_secret), as_json=json)


@app.command(name="set")
def change(
    *, client_id: ClientId, scope: operating.Many[ScopeName] = (), add_scope: operating.Many[ScopeName] = (), json: Json = False
) -> None:
    """Give a client other scopes. If it loses one, its tokens issued until now are refused.

    When it returns, the change holds on every process.

    Args:
        scope: The client's permissions from now on; repeat the option for each scope.
        add_scope: A permission to add to those it has; repeat the option for each scope.
    """
    _show_changed(operating.run(access_usecases.set_scopes, client_id, scope, added=add_scope), as_json=json)


@app.command
def rotate(*, client_id: ClientId, json: Json = False) -> None:
    """Replace a client's secret; prints the new one. The old one and tokens issued until now are refused.

    When it returns, the change holds on every process.
    """
    issued = operating.run(access_usecases.rotate_client, client_id)
    output.show(_shown(issued.client, issued.client_secret), as_json=json)
    operating.wait_until_in_force()


@app.command
def disable(*, client_id: ClientId, json: Json = False) -> None:
    """Disable a client and refuse its issued tokens for ever.

    When it returns, the change holds on every process.
    """
    _show_changed(operating.run(access_usecases.disable_client, client_id), as_json=json)


@app.command
def enable(*, client_id: ClientId, json: Json = False) -> None:
    """Enable a disabled client again."""
    client = operating.run(access_usecases.enable_client, client_id)
    output.show(_shown(client), as_json=json)


@app.command
def delete(*, client_id: ClientId, json: Json = False) -> None:
    """Delete a client for good, with its issued tokens; prints its last state. Its acts stay in the audit.

    When it returns, its tokens are refused on every process. To block it for a while, `disable` it.
    """
    _show_changed(operating.run(access_usecases.delete_client, client_id), as_json=json)
    terminal.notice(f"client {client_id} is deleted")


@app.command(name="revoke-tokens")
def revoke_tokens(client_id: ClientId, *, json: Json = False) -> None:
    """Refuse every token that a client was issued until now; with its secret it may log in again.

    When it returns, the change holds on every process.
    """
    _show_changed(operating.run(access_usecases.revoke_tokens, client_id), as_json=json)


@app.command
def certificate(
    client_id: ClientId,
    *,
    file: Path | None = None,
    folder: Path | None = None,
    remove: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    json: Json = False,
) -> None:
    """Bind a client to a certificate: from now on it gets and uses tokens only with that, on PIXCONNECT_TLS_PORT.

    In the sandbox it makes a key and a certificate for a test program, signed by the sandbox's own authority. The service
    refuses tokens issued before. When it returns, the change holds on every process.

    Args:
        file: An existing certificate in PEM; required in live mode.
        folder: Where to put the new files; by default `tls/clients` in the home.
        remove: Remove the client's certificate: it gets and uses tokens without one again.
    """
    made = taken = None
    if file is not None:
        taken = _read_certificate(file)
    elif not remove:
        made = _make_certificate(client_id, folder)
        taken = made.certificate
    bound = None if remove else taken
    thumbprint = bound and jose.certificate_thumbprint(bound.der)
    expires_at = bound and bound.expires_at
    client = operating.run(access_usecases.set_certificate, client_id, thumbprint, expires_at)
    shown = _shown(client)
    if made is not None:
        shown |= show_files(made, read_settings().home_path)
    output.show(shown, as_json=json)
    operating.wait_until_in_force()


def _read_certificate(file: Path) -> Certificate:
    try:
        return certificates.read_pem(read_named_file(file))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no certificate in PEM"
        raise CommandError(f"--file: {file} cannot be read ({reason})") from None


def _make_certificate(client_id: str, folder: Path | None) -> ClientFiles:
    settings = read_settings()
    if settings.mode == "live" or settings.tls_authority_file:
        raise CommandError("--file: missing; certificates are made by the sandbox's own authority alone: name one of yours")
    # It becomes part of file names.
    if not is_client_id(client_id):
        raise CommandError(f"client_id: there is no client {client_id}")
    home = settings.home_path
    return certificates.write_client(home, folder or home / "tls" / "clients", client_id, SystemClock().real_now())


@app.command(name="list")
def list_clients(*, holder_id: TheHolder, json: Json = False) -> None:
    """Print a holder's clients, oldest first."""
    clients = operating.run(access_usecases.list_clients, holder_id)
    output.show_list("clients", [_shown(client) for client in clients], as_json=json)


@app.command
def activity(
    client_id: ClientId,
    *,
    since: str,
    until: str | None = None,
    kind: str | None = None,
    token_id: str | None = None,
    peer: str | None = None,
    holder_id: HolderId | None = None,
    json: Json = False,
) -> None:
    """Print a client's requests: charges, transfers, refunds and changes of endpoints, the newest first, at most 10000.

    They are kept for 400 days. A line without a token id is of the client's session in the console.

    Args:
        since: From this day (in Sao Paulo) or instant on: 2026-11-20 or 2026-11-20T12:00:00-03:00.
        until: Until this day or instant, included; until now if you leave it out.
        kind: Only this kind: charge, charge_change (of a charge that existed already), transfer, refund or endpoint.
        token_id: By this token only: its claim `jti`.
        peer: From this address only.
        holder_id: The holder that had the client, if it has been deleted.
    """
    initial_at = parse_instant("--since", since)
    final_at = datetime.max.replace(tzinfo=UTC) if until is None else parse_instant("--until", until, is_end=True)
    found = operating.run(
        access_usecases.list_activity,
        client_id,
        initial_at,
        final_at,
        kind=kind,
        token_id=token_id,
        peer=peer,
        holder_id=holder_id,
    )
    shown = [output.pick(one, "kind id holder_id at") | show_asker(one) for one in found]
    output.show_list("activity", shown, as_json=json)


def _show_changed(client: Client, *, as_json: bool) -> None:
    output.show(_shown(client), as_json=as_json)
    operating.wait_until_in_force()


def _shown(client: Client, client_secret: str | None = None) -> output.Shown:
    # Beside the client_id, where people look for it.
    secret: output.Shown = {} if client_secret is None else {"client_secret": client_secret}
    rest = "created_at rotated_at disabled_at tokens_from certificate certificate_expires_at"
    return {
        "client_id": client.client_id,
        **secret,
        **output.pick(client, "holder_id name"),
        "scope": " ".join(client.scopes),
        **output.pick(client, rest),
    }
