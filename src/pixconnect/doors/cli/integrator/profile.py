"""``pixconnect profile``: credentials under a name."""

from __future__ import annotations

import getpass
import sys
from typing import Annotated

from cyclopts import App, Parameter

from pixconnect.doors.cli import output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator import credentials
from pixconnect.doors.cli.integrator.credentials import Credentials, Profile
from pixconnect.doors.cli.integrator.session import connect, explaining, is_sandbox
from pixconnect.doors.cli.output import Json

app = App(name="profile", help="Credentials under a name.")

Name = Annotated[str, Parameter(help="The profile's name.")]


@app.command
def add(
    name: Name, *, api_url: str, client_id: str, auth_url: str | None = None, key: str | None = None, json: Json = False
) -> None:
    """Store credentials in a private file of yours, once the service accepts them. The secret is read from standard input.

    Args:
        api_url: The API's address, such as https://pix.example.
        client_id: The client.
        auth_url: The identity service's address; by default the API's.
        key: The holder's Pix key that verbs use when none is given.
    """
    # Other processes can read arguments.
    secret = getpass.getpass("client_secret: ") if sys.stdin.isatty() else sys.stdin.readline().strip()
    if not secret:
        raise CommandError("the client_secret is missing: type it, or pipe it in")
    tried = Credentials(
        api_url=api_url,
        auth_url=auth_url or api_url,
        client_id=client_id,
        client_secret=secret,
        mode=None,
        source=f"the future profile {name}",
    )
    with explaining(tried), connect(tried) as client:
        mode = "sandbox" if is_sandbox(client) else "live"
    made = Profile(
        api_url=tried.api_url, auth_url=tried.auth_url, client_id=client_id, client_secret=secret, mode=mode, key=key
    )
    path = credentials.write_profile(name, made)
    output.show({**_shown(name, made), "file": str(path)}, as_json=json)


@app.command(name="list")
def list_profiles(*, json: Json = False) -> None:
    """Print the profiles, without their secrets."""
    found = [_shown(name, credentials.read_profile(name)) for name in credentials.list_profiles()]
    output.show_list("profiles", found, as_json=json, columns=("name", "mode", "api_url", "client_id"))


@app.command
def remove(name: Name) -> None:
    """Delete a profile. Its client stays valid: an operator disables it."""
    credentials.remove_profile(name)
    terminal.notice(f"the profile {name} is forgotten")


def _shown(name: str, profile: Profile) -> output.Shown:
    return {"name": name, **output.pick(profile, "mode api_url auth_url client_id key")}
