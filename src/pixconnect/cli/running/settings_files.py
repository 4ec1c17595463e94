"""The files of settings that systemd gives to each part: their passwords when they are made, and what is wrong in them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from pixconnect import environment
from pixconnect.cli.frame import live_mode
from pixconnect.cli.frame.failures import CommandError
from pixconnect.config import SettingsError
from pixconnect.domain.frame.entropy import Entropy
from pixconnect.named_file import read_named_file

FOR_ALL: Final = "service.env"
OF_PARTS: Final = ("operators.env", "console.env", "verify.env", "work.env")
LOGINS: Final = "logins.sql"
"""Makes the database and its logins, with the passwords that the other files have."""

_PASSWORD: Final = re.compile(r"\b(owner|app|ops|console|verify)-password\b")
_LOGIN: Final = re.compile(r"^create role pix_(\w+) .*password '([^']*)';$", re.MULTILINE)
_LINE: Final = re.compile(r"""([A-Za-z_]\w*)=(?:'([^']*)'|"([^"\\$`]*)"|([^\s'"\\$`;&|<>()#]*))[ \t]*""")
_NAMED_BY_UNITS: Final = ("PORT", "PIXCONNECT_PORT", "PIXCONNECT_HOME", "PIXCONNECT_SECRET_KEY_FILE")


def choose_passwords(known: str | None, entropy: Entropy) -> Mapping[str, str]:
    """Those of the logins in a `logins.sql` that is there; without one, new ones."""
    if known is not None:
        return dict(_LOGIN.findall(known))
    return {login: entropy.token(24) for login in ("owner", "app", "ops", "console", "verify")}


def fill_in(template: str, passwords: Mapping[str, str]) -> str:
    """The file with the passwords in place of the template's, as far as they are known."""
    # One that is not known stays the example's, of which `list_unfilled` tells.
    return _PASSWORD.sub(lambda found: passwords.get(found[1], found[0]), template)


def read_file(path: Path) -> dict[str, str]:
    """The variables of a file; empty if there is no file.

    Raises:
        CommandError: A line is one that systemd or a shell would read in another way; it names the line.
    """
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
            # The line may hold a password.
            raise CommandError(f"{path}, line {number}: must be NAME='value', with nothing before or behind it")
        found[parts[1]] = next((value for value in parts.groups()[1:] if value is not None), "")
    return found


def refuse_wrong(folder: Path) -> None:
    """Refuse files in which a part would not start; ``CommandError`` names the file, the setting and what was meant."""
    for_all = read_file(folder / FOR_ALL)
    for name in _NAMED_BY_UNITS:
        if name in for_all:
            raise CommandError(
                f"{folder / FOR_ALL}: {name} is for each part alone, and its unit sets it: remove the line"
            )
    for name, own in [(FOR_ALL, {}), *((name, read_file(folder / name)) for name in OF_PARTS)]:
        # The part's own file wins, as with systemd, to which the units name it last.
        given = for_all | own
        for line in environment.misspelt_variables(given):
            raise CommandError(f"{folder / name}: {line}")
        try:
            # Files of secrets need not be there yet, and under another root they are not where they will be.
            environment.read_settings({key: value for key, value in given.items() if not key.endswith("_FILE")})
        except SettingsError as error:
            raise CommandError(f"{folder / name}: {error}") from None


def list_unfilled(folder: Path) -> Sequence[str]:
    """What is still the template's, or will be refused in live mode: a line for each."""
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
    # The home is the units' to name.
    settings = dataclasses.replace(settings, home="/var/lib/pixconnect")
    return [*lines, *live_mode.list_refusals(settings)]
