"""Reads settings from the environment, and the files that it names.

Each is the variable ``PIXCONNECT_<NAME>`` in capitals (``PORT`` and ``DATABASE_URL`` also without the prefix); an empty one
counts as not set. A secret may also be in a file that ``PIXCONNECT_<NAME>_FILE`` names.
"""

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import msgspec

from pixconnect.platform.config import KINDS, NAMES, SECRETS, Settings, SettingsError
from pixconnect.platform.database_config import DATABASE_URLS, is_readable_address

_PREFIX = "PIXCONNECT_"
# Kubernetes sets these for a service that is called pixconnect.
_IS_ORCHESTRATORS = re.compile(r"^PIXCONNECT_(.*_)?(SERVICE_(HOST|PORT.*)|PORT_\d+_.*)$")


def read_settings(environment: Mapping[str, str] = os.environ) -> Settings:
    # The longer name comes first and counts.
    set_by = {name: next((variable for variable in _variables(name) if environment.get(variable)), "") for name in NAMES}
    found = {name: environment[variable] for name, variable in set_by.items() if variable}
    for name, (variable, path) in _find_secret_files(environment).items():
        # The two are ambiguous, so neither is taken.
        if name in found:
            raise SettingsError(f"{set_by[name]}: is set, and so is {variable}; set one of them")
        found[name], set_by[name] = _read_secret_file(variable, path), variable
    for name in DATABASE_URLS:
        # The driver would show the part of it that it cannot read, which may be one of the password.
        if not is_readable_address(found.get(name, "")):
            raise SettingsError(
                f"{set_by[name]}: is no address of a PostgreSQL database; in a user or password, write / as %2F, ? as %3F, "
                "# as %23, @ as %40, [ as %5B, ] as %5D and % as %25"
            )
    try:
        settings = msgspec.convert(found, Settings, strict=False)
    except msgspec.ValidationError as error:
        # msgspec says "rule - at `$.name`".
        rule, _, path = str(error).partition(" - at ")
        name = path.strip("`").removeprefix("$.")
        shown = "" if name in SECRETS else f"; it is {found[name]!r}"
        raise SettingsError(f"{set_by[name]}: {_describe_rule(name, rule)}{shown}") from None
    for name in ("trusted_proxies", "tls_proxies", "forbidden_networks"):
        settings.read_networks(name)
    return settings


def own_folder(variable: str, below_home: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return our folder among a user's own files, by the XDG Base Directory Specification: ``XDG_CONFIG_HOME`` or the like."""
    given = Path(environment.get(variable, ""))
    # The specification has paths that are not absolute ignored.
    return (given if given.is_absolute() else Path.home() / below_home) / "pixconnect"


def misspelt_variables(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Return a line for each unknown variable with our prefix, with the probable name."""
    names = [variable for name in NAMES for variable in _variables(name)]
    names += [f"{variable}_FILE" for name in SECRETS for variable in _variables(name)]
    lines: list[str] = []
    for variable in sorted(environment):
        if not variable.startswith(_PREFIX) or variable in names or _IS_ORCHESTRATORS.search(variable):
            continue
        import difflib  # noqa: PLC0415  few starts need it

        # Compared without the prefix, which would make all of them look alike.
        near = difflib.get_close_matches(variable.removeprefix(_PREFIX), [known.removeprefix(_PREFIX) for known in names], n=1)
        meant = f"did you mean {_PREFIX}{near[0]}?" if near else "all settings are in the documentation, reference/settings"
        lines.append(f"{variable}: there is no such setting; {meant}")
    return lines


def _describe_rule(name: str, rule: str) -> str:
    """Describe a setting's rule, from msgspec's message about its violation."""
    kind = KINDS[name]
    words = get_args(kind)
    if "enum" in rule:
        return f"must be {', '.join(words[:-1])} or {words[-1]}"
    # The first argument of Annotated is the type itself.
    if "got `str`" in rule and (kind is int or words[:1] == (int,)):
        return "must be a whole number"
    if bound := re.search(r"(>=|<=) (-?\d+)$", rule):
        at = f"at {'least' if bound[1] == '>=' else 'most'} {bound[2]}"
        return f"must have {at} characters" if "length" in rule else f"must be {at}"
    if form := re.search(r"regex '(.*)'$", rule):
        return f"must have the form {form[1]}"
    return rule


def name_database_settings() -> str:
    """Name the variables that hold addresses of the database; for the embedded server, the one that could."""
    own = [variable for name in DATABASE_URLS for variable in _variables(name)]
    return " or ".join(each for one in own for each in (one, f"{one}_FILE") if os.environ.get(each)) or own[0]


def secret_files(environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    return {name: path for name, (_, path) in _find_secret_files(environment).items()}


def _find_secret_files(environment: Mapping[str, str]) -> dict[str, tuple[str, Path]]:
    """By the setting's name, the variable that names a file, and the file."""
    return {
        name: (f"{variable}_FILE", Path(path).expanduser().absolute())
        for name in SECRETS
        # A later entry replaces an earlier one, so here the longer name comes last.
        for variable in reversed(_variables(name))
        if (path := environment.get(f"{variable}_FILE"))
    }


def _read_secret_file(variable: str, path: Path) -> str:
    try:
        secret = read_named_file(path).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise SettingsError(f"{variable}: {path} cannot be read ({reason})") from None
    if not secret:
        raise SettingsError(f"{variable}: {path} is empty")
    return secret


def _variables(name: str) -> tuple[str, ...]:
    # Platforms that start containers set these two without a prefix.
    own = f"{_PREFIX}{name.upper()}"
    return (own, name.upper()) if name in {"port", "database_url"} else (own,)


# Files that an operator names: secrets, certificates, what describes an account, statements.

LENGTH_MAX: Final = 4 * 1024 * 1024
"""Of a certificate's or a secret's file in octets: a bundle of all authorities is a part of it."""


def read_named_file(path: str | Path, length_max: int = LENGTH_MAX) -> bytes:
    """The contents of a regular file of a bounded length.

    Raises:
        OSError: It cannot be read, is something else, or is longer; ``strerror`` names the reason.
        ValueError: The name has a NUL.
    """
    # Opening a FIFO for reading waits for a writer, and a device may never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        with open(descriptor, "rb", closefd=False) as opened:
            content = opened.read(length_max + 1)
    finally:
        os.close(descriptor)
    if len(content) > length_max:
        raise OSError(errno.EFBIG, f"it is longer than {length_max // 1024} KiB", str(path))
    return content
