"""``pixconnect systemd install``: units, settings, users and the secret key, where systemd looks for them.

It may be run again at any time, and be interrupted: each file is written whole or not at all, and existing settings, passwords
and the key stay. A changed unit stays too. Ours are in /usr/local/lib, so that /etc/systemd has only operators' files
(`systemctl edit`).
"""

import dataclasses
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

from cyclopts import App

from pixconnect.doors.cli import live_mode, terminal
from pixconnect.doors.cli.failures import CommandError
from pixconnect.platform import environment
from pixconnect.platform.base.entropy import Entropy
from pixconnect.platform.config import KEY_FILE, SettingsError
from pixconnect.platform.environment import read_named_file

FOR_ALL: Final = "service.env"
OF_PARTS: Final = ("operators.env", "console.env", "verify.env", "work.env")
LOGINS: Final = "logins.sql"  # makes the database and its logins, with the passwords that the other files have

_PASSWORD: Final = re.compile(r"\b(owner|app|ops|console|verify)-password\b")
_LOGIN: Final = re.compile(r"^create role pix_(\w+) .*password '([^']*)';$", re.MULTILINE)
_LINE: Final = re.compile(r"""([A-Za-z_]\w*)=(?:'([^']*)'|"([^"\\$`]*)"|([^\s'"\\$`;&|<>()#]*))[ \t]*""")
_NAMED_BY_UNITS: Final = ("PORT", "PIXCONNECT_PORT", "PIXCONNECT_HOME", "PIXCONNECT_SECRET_KEY_FILE")


def choose_passwords(known: str | None, entropy: Entropy) -> Mapping[str, str]:
    """Return the passwords of the logins in an existing `logins.sql`; without one, new ones."""
    if known is not None:
        return dict(_LOGIN.findall(known))
    return {login: entropy.token(24) for login in ("owner", "app", "ops", "console", "verify")}


def read_file(path: Path) -> dict[str, str]:
    """Read a file's variables, if it exists; ``CommandError`` names a line that systemd or a shell would read differently."""
    try:
        text = read_named_file(path).decode()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise CommandError(f"{path} cannot be read ({reason})") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip()[0] in "#;":
            continue
        if (parts := _LINE.fullmatch(line)) is None:
            # The line may contain a password.
            raise CommandError(f"{path}, line {number}: must be NAME='value', with nothing before or behind it")
        found[parts[1]] = next((value for value in parts.groups()[1:] if value is not None), "")
    return found


def refuse_wrong(folder: Path) -> None:
    """Refuse files with which a part would not start; ``CommandError`` names the file, the setting and the probable name."""
    for_all = read_file(folder / FOR_ALL)
    for name in _NAMED_BY_UNITS:
        if name in for_all:
            raise CommandError(f"{folder / FOR_ALL}: {name} is for each part alone, and its unit sets it: remove the line")
    for name, own in [(FOR_ALL, {}), *((name, read_file(folder / name)) for name in OF_PARTS)]:
        # The part's own file wins, as with systemd, to which the units name it last.
        given = for_all | own
        for line in environment.misspelt_variables(given):
            raise CommandError(f"{folder / name}: {line}")
        try:
            # Files of secrets may be missing yet, and under another root they are not at their final place.
            environment.read_settings({key: value for key, value in given.items() if not key.endswith("_FILE")})
        except SettingsError as error:
            raise CommandError(f"{folder / name}: {error}") from None


def list_unfilled(folder: Path) -> Sequence[str]:
    """List settings still as in the template, or refused in live mode: a line for each."""
    lines: list[str] = []
    for name in (FOR_ALL, *OF_PARTS):
        for variable, value in read_file(folder / name).items():
            if _PASSWORD.search(value):
                lines.append(f"{folder / name}: {variable} still has the example's password")
            elif ".example" in value:
                lines.append(f"{folder / name}: {variable} is still {value}")
    settings = environment.read_settings(
        {key: value for key, value in read_file(folder / FOR_ALL).items() if not key.endswith("_FILE")}
    )
    # The units set the home.
    settings = dataclasses.replace(settings, home="/var/lib/pixconnect")
    return [*lines, *live_mode.list_refusals(settings)]


app = App(name="systemd", help="The service under systemd.")

_PROGRAM: Final = "/opt/pixconnect/.venv/bin/pixconnect"  # as the templates have it
_SETTINGS: Final = Path("etc/pixconnect")
_UNITS: Final = Path("usr/local/lib/systemd/system")
_PLACES: Final = {
    "sysusers.conf": Path("usr/local/lib/sysusers.d/pixconnect.conf"),
    "tmpfiles.conf": Path("usr/local/lib/tmpfiles.d/pixconnect.conf"),
    "pixconnect-operator": Path("usr/local/sbin/pixconnect-operator"),
}
_STAMP: Final = "# Of pixconnect systemd install, sha256 "
_UNSEEN: Final = (Path("/home"), Path("/root"), Path("/run/user"), Path("/tmp"), Path("/var/tmp"))  # noqa: S108  named
_USED: Final = re.compile(r"[A-Za-z0-9/._+@-]+")
ENABLE: Final = (
    "systemctl enable --now pixconnect.target pixconnect-migrate pixconnect-serve@8081 pixconnect-serve@8082 "
    "pixconnect-work@1 pixconnect-work@2 pixconnect-console.socket "
    "pixconnect-verify.timer pixconnect-verify-whole.timer"
)


@app.command
def install(*, root: Path = Path("/"), program: Path | None = None) -> None:
    """Put units, settings, users and the secret key where systemd finds them, and print the next steps.

    It keeps existing settings, passwords, the key and changed units, so it may be run again. For root.

    Args:
        root: Of a machine that does not run, such as an image's folder.
        program: Where `pixconnect` is on that machine; by default where this one is.
    """
    root, templates = root.absolute(), _find_templates()
    program = _find_program() if program is None else program
    # It is inserted into units unquoted, so a blank or a quote would end it.
    if not program.is_absolute() or _USED.fullmatch(str(program)) is None:
        raise CommandError(
            f"{program}: in a unit it must be a whole path, of letters, digits and ._+@-/: install it in /opt/pixconnect"
        )
    if os.geteuid() != 0:
        raise CommandError("only root may install units and users: run it by sudo")
    if not root.is_dir():
        raise CommandError(f"--root: {root} is no folder")
    for needed in ("systemd-sysusers", "systemd-tmpfiles"):
        if shutil.which(needed) is None:
            raise CommandError(f"this machine has no {needed}: it needs systemd 250 or later")
    folder = root / _SETTINGS
    # Before any write: with a wrong file no part would start, even after our installation.
    refuse_wrong(folder)
    for line in (*_write_settings(templates, folder), *_write_units(templates, root, program)):
        terminal.print_line(line)
    _reload_systemd(root)
    for line in _next_steps(folder, is_here=root == Path("/")):
        terminal.print_line(line)


def _find_templates() -> Path:
    package = Path(__file__).parents[1]
    # First the files of a wheel, then those of the repository that it was installed from.
    for above in (package / "pages", package.parents[1]):
        if (above / "deploy" / "systemd").is_dir():
            return above / "deploy" / "systemd"
    raise CommandError("this installation has no units: install the wheel, or take a clone of the repository")


def _find_program() -> Path:
    program = Path(sys.prefix) / "bin" / "pixconnect"
    if not program.exists():
        raise CommandError(f"{program} does not exist: install the package, or run `make environment`")
    # The units hide these folders from the parts, and others may not traverse most of them.
    for path in (program, Path(sys.executable).resolve()):
        for unseen in _UNSEEN:
            if path.is_relative_to(unseen):
                raise CommandError(
                    f"{path} is in {unseen}, which services do not see: install the program in /opt/pixconnect, of a Python "
                    "that every user may execute (make environment PYTHON=/usr/bin/python3)"
                )
        for above in path.parents:
            if not above.stat().st_mode & 0o001:
                raise CommandError(f"{path}: other users may not pass through {above}: chmod a+x {above}")
    return program


def _write_settings(templates: Path, folder: Path) -> Iterator[str]:
    # Access to the key is access to nearly everything.
    from pixconnect.platform.adapters.secret_box import read_or_make_secret_key  # noqa: PLC0415
    from pixconnect.platform.adapters.system import SystemEntropy  # noqa: PLC0415

    entropy = SystemEntropy()
    folder.mkdir(parents=True, exist_ok=True)
    # An existing folder may be open to all users.
    folder.chmod(0o700)
    logins = folder / LOGINS
    known = logins.read_text(encoding="utf-8") if logins.exists() else None
    is_new = known is None and not any(folder.glob("*.env"))
    # If the logins were made and their passwords thrown away, only an operator knows them.
    passwords = choose_passwords(known, entropy) if is_new or known is not None else dict[str, str]()
    # The logins come first: a start that is interrupted after them finds the same passwords again.
    for name in ([LOGINS] if is_new else []) + [FOR_ALL, *OF_PARTS]:
        if (folder / name).exists():
            yield f"kept      {folder / name}"
            continue
        text = (templates / name).read_text(encoding="utf-8")
        # An unknown password stays the example's, which `list_unfilled` reports.
        filled = _PASSWORD.sub(lambda found: passwords.get(found[1], found[0]), text)
        _write_whole(folder / name, filled, 0o600)
        yield f"written   {folder / name}"
    is_made = not (folder / KEY_FILE).exists()
    read_or_make_secret_key("", folder, entropy)
    yield f"{'written' if is_made else 'kept   '}   {folder / KEY_FILE}"


def _write_units(templates: Path, root: Path, program: Path) -> Iterator[str]:
    for template in sorted(templates.rglob("*")):
        name = template.relative_to(templates)
        # Settings and logins have passwords: `_write_settings` writes them, and never overwrites existing ones.
        if template.is_dir() or name.suffix in {".env", ".sql"}:
            continue
        target = root / _PLACES.get(name.name, _UNITS / name)
        body = template.read_text(encoding="utf-8").replace(_PROGRAM, str(program))
        text = f"{body}{_STAMP}{_digest(body)}\n"
        mode = 0o755 if os.access(template, os.X_OK) or name.name == "pixconnect-operator" else 0o644
        found = target.read_text(encoding="utf-8") if target.exists() else None
        if found == text:
            continue
        if found is not None and not _is_ours(found):
            # The existing one may keep this machine running, so ours is written beside it for comparison.
            beside = target.with_name(f"{target.name}.new")
            _write_whole(beside, text, mode)
            yield f"kept      {target}, which was changed here; ours is {beside.name}"
            continue
        _write_whole(target, text, mode)
        yield f"written   {target}"


def _is_ours(text: str) -> bool:
    body, stamp, digest = text.rpartition(_STAMP)
    # The digest is of our text, so a file changed by hand no longer matches.
    return bool(stamp) and digest.strip() == _digest(body)


def _digest(body: str) -> str:
    return sha256(body.encode()).hexdigest()


def _write_whole(path: Path, text: str, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    # It may contain passwords: other users must not read it before it has its own mode.
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        # Durable before it has its name: a machine that stops here leaves the old file or the new one.
        os.fsync(descriptor)
    draft.rename(path)


def _reload_systemd(root: Path) -> None:
    _run("systemd-sysusers", f"--root={root}", str(root / _PLACES["sysusers.conf"]))
    _run("systemd-tmpfiles", "--create", f"--root={root}", str(root / _PLACES["tmpfiles.conf"]))
    # In an image, or in a container without it, there is no systemd to notify.
    if root == Path("/") and Path("/run/systemd/system").is_dir():
        _run("systemctl", "daemon-reload")


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  our own words
    if done.returncode:
        raise CommandError(f"{' '.join(words)} failed: {done.stderr.strip() or done.returncode}; mend it and run this again")


def _next_steps(folder: Path, *, is_here: bool) -> Iterator[str]:
    yield ""
    unfilled = list_unfilled(folder)
    if unfilled:
        yield "Fill in, then run this again:"
        yield from (f"  {line}" for line in unfilled)
    logins = folder / LOGINS
    if logins.exists():
        yield "Make the database and its logins, then remove that file:"
        yield f"  psql -v ON_ERROR_STOP=1 -f - postgresql://ADMINISTRATOR@HOST/postgres < {logins} && rm {logins}"
    if not unfilled:
        yield f"Start it{'' if is_here else ', on that machine'}:"
        yield f"  {ENABLE}"
        if read_file(folder / FOR_ALL).get("PIXCONNECT_RAIL_URL"):
            yield "  systemctl enable --now pixconnect-sandbox"
