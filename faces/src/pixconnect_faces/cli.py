"""``pixconnect face``: credentials and addresses for using the sandbox as an institution."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import HolderId
from pixconnect.doors.cli.output import Json, Shown
from pixconnect.doors.cli.settings import RUNNING_FILE, Running, read_settings
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.identity.cli.client import show_files
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.institutions.profiles.profile import (
    HOMOLOGATION,
    NAMES,
    parse_answers,
    parse_listeners,
    read_profile,
)
from pixconnect.kernel.rules.access import make_app_id
from pixconnect.platform import certificates
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.config import Settings
from pixconnect.platform.local.home import read_sandbox_file

Last = Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1), help="How many.")]
FaceName = Annotated[str, Parameter(help=f"The face: an institution's name, or that and {HOMOLOGATION}.")]

app = App(name="face", help="Sandbox: the interfaces of institutions, for their own libraries.")


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List the faces and their addresses."""
    settings = _read_sandbox()
    faces: list[Shown] = [
        {"face": face, "institution": read_profile(name).title, **_addresses(settings, face)}
        for name in NAMES
        for face in (name, name + HOMOLOGATION)
    ]
    output.show_list("faces", faces, as_json=json)


@app.command
def show(name: FaceName, *, json: Json = False) -> None:
    """Print a face's addresses, credentials, certificates, choices, and the lines to paste for its libraries."""
    settings = _read_sandbox()
    profile = read_profile(_check_name(name))
    known = read_sandbox_file(settings.home_path)
    # Before the first start there is no demonstration.
    client_id, client_secret = ("CLIENT_ID", "CLIENT_SECRET") if known is None else (known.client_id, known.client_secret)
    shown = _describe(settings, name, client_id, client_secret)
    shown["pix_keys"] = [] if known is None else known.pix_keys
    chosen, choices = parse_answers(settings.face_answers, settings.sandbox_seed), output.Shown()
    for choice, found in profile.choices.items():
        name, answers = f"{profile.name}.{choice}", " or ".join(found.answers)
        choices[name] = f"{found.about} Now {chosen.get(name, found.answers[0])}; PIXCONNECT_FACE_ANSWERS: {answers}"
    if json:
        output.show(shown | choices, as_json=True)
        return
    output.show(shown, as_json=False)
    for library, lines in profile.libraries.items():
        terminal.print_line(f"\n{library}:\n{lines.format_map(shown)}")
    if choices:
        terminal.print_line("")
        output.show(choices, as_json=False)


@app.command
def add(name: FaceName, *, holder_id: HolderId, json: Json = False) -> None:
    """Make a client of a holder for a face; prints its credentials, with the secret shown only once."""
    settings = _read_sandbox()
    _check_name(name)
    issued = operating.run(access_usecases.create_client, holder_id, f"face {name}", ())
    output.show(_describe(settings, name, issued.client.client_id, issued.client_secret), as_json=json)


@app.command
def log(name: FaceName, *, last: Last = 20, json: Json = False) -> None:
    """Print a face's last requests and answers, newest last; secrets are not logged."""
    settings = _read_sandbox()
    _check_name(name)
    folder = settings.home_path / "faces"
    lines = [line for file in (f"{name}.before.jsonl", f"{name}.jsonl") for line in _read_lines(folder / file)]
    output.show_list("exchanges", [*filter(None, map(_read_exchange, lines[-last:]))], as_json=json)


def _read_exchange(line: bytes) -> Shown | None:
    # A disk that was full leaves half a line.
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(line, type=Shown)
    return None


def _read_lines(file: Path) -> list[bytes]:
    try:
        # The last line may be half written.
        return [line for line in file.read_bytes().split(b"\n")[:-1] if line]
    except FileNotFoundError:
        return []


def _read_sandbox() -> Settings:
    settings = read_settings()
    if settings.mode == "live":
        raise CommandError("there are no faces in live mode: unset PIXCONNECT_MODE")
    return settings


def _check_name(name: str) -> str:
    institution = name.removesuffix(HOMOLOGATION)
    if institution not in NAMES:
        raise CommandError(f"there is no face {name}; there are {', '.join(NAMES)}, each also with {HOMOLOGATION}")
    return institution


def _addresses(settings: Settings, face: str) -> Shown:
    try:
        running = msgspec.json.decode((settings.home_path / RUNNING_FILE).read_bytes(), type=Running)
        base_url, faces = running.base_url, running.faces
    except (OSError, msgspec.DecodeError):
        base_url, faces = settings.public_base_url, settings.faces
    ports = {listener.face: listener.port for listener in parse_listeners(faces)}
    listener = f"https://localhost:{ports[face]}" if face in ports else None
    return {"base_url": f"{base_url}/faces/{face}", "listener": listener}


def _describe(settings: Settings, face: str, client_id: str, client_secret: str) -> Shown:
    home = settings.home_path
    files = certificates.write_client(home, home / "tls" / "clients", client_id, SystemClock().real_now())
    addresses, profile = _addresses(settings, face), read_profile(_check_name(face))
    return {
        "face": face,
        **addresses,
        "url": addresses["listener"] or addresses["base_url"],
        "client_id": client_id,
        "client_secret": client_secret,
        **({} if profile.token.path else {"app_id": make_app_id(client_id, client_secret)}),
        **show_files(files, home),
    }
