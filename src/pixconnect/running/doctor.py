"""``pixconnect doctor``: possible faults here, and their remedies."""

import asyncio
import fcntl
import json
import os
import platform
import shutil
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, cast
from urllib.parse import urlsplit
from urllib.request import urlopen

import msgspec
from cyclopts import Parameter

from pixconnect import __version__
from pixconnect.doors.cli import failures, live_mode, operating, output, terminal
from pixconnect.doors.cli.failures import CommandError, ExitStatus
from pixconnect.doors.cli.integrator.credentials import Credentials, find_credentials
from pixconnect.doors.cli.integrator.session import advise_scope, connect, explaining, is_sandbox
from pixconnect.doors.cli.live_mode import Symptom
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.settings import (
    RUNNING_FILE,
    find_port,
    reachable_host,
    read_database_settings,
    read_listeners,
    write_start,
)
from pixconnect.platform import environment
from pixconnect.platform.config import KEY_FILE, Settings, SettingsError
from pixconnect.platform.local.home import closed_mode
from pixconnect.running import tls
from pixconnect_client import Client, Forbidden

_FREE_OCTETS_MIN: Final = 200 << 20
_FREE_OCTETS_GOOD: Final = 1 << 30
_ANSWERS_WITHIN_S: Final = 10.0
_CLOCK_OFF_S: Final = 5
_LOOKED_AT: Final = 10
_USUAL_PORT: Final = 8081  # of the first API process in our units and pages
_NO_HEALTH: Final = (OSError, ValueError, LookupError, TypeError)


def look(*, looks_at_tables: bool = True) -> Iterator[Symptom]:
    yield live_mode.ok("version", f"pixconnect {__version__}, Python {platform.python_version()}, {platform.system()}")
    for line in environment.misspelt_variables():
        text, _, todo = line.partition("; ")
        yield live_mode.wrong("settings", text, todo)
    try:
        settings = environment.read_settings()
    except SettingsError as error:
        yield live_mode.wrong("settings", str(error), "set it to a valid value, or unset it")
        return
    refused = (f"refused: {line}" for line in live_mode.list_refusals(settings))
    for line in (*refused, *live_mode.list_risks(settings)):
        text, _, todo = line.partition("; ")
        yield live_mode.wrong("live", text, todo)
    yield from _look_at_readers(settings)
    yield from _look_at_home(settings)
    runs = _runs(settings.home_path)
    if not runs and not settings.database_url:
        yield from _look_at_port(settings)
    elif not runs and looks_at_tables:
        # Before an upgrade no service need run.
        yield from _look_at_parts(settings)
    if looks_at_tables and (runs or settings.operators_url):
        yield from _look_at_database()


def _look_at_readers(settings: Settings) -> Iterator[Symptom]:
    """Read the settings that parts read at their start, as they do."""
    from pixconnect.assembly import outside, sandbox  # noqa: PLC0415  with them comes nearly everything

    readers: list[Callable[[], object]] = [
        partial(read_listeners, settings),
        partial(tls.check_files, settings),
        partial(outside.make_tls, *settings.webhook_tls_files),
    ]
    if settings.mode == "live":
        readers.append(partial(outside.read_trusted, settings, None))
    else:
        readers.append(partial(outside.read_named_receivers, settings))
        readers += [partial(sandbox.read_port, settings)] * bool(settings.rail_url)
    for read in readers:
        try:
            read()
        except Exception as error:
            if (line := failures.explain(error)) is None:
                raise
            yield live_mode.wrong("settings", line, "set it to a valid value, or unset it")


def _look_at_parts(settings: Settings) -> Iterator[Symptom]:
    """Check parts that are started one by one by a report: at the service's address, or at a port of this machine."""
    address = public = settings.public_base_url
    here = [f"http://{reachable_host(settings.host)}:{port}" for port in (settings.port, _USUAL_PORT)]
    checks, failed = None, dict[str, Exception]()
    for address in dict.fromkeys((public, *here)):
        try:
            with urlopen(f"{address}/v1/connect/health", timeout=_ANSWERS_WITHIN_S) as answer:  # noqa: S310  the operator's own
                checks = cast("dict[str, dict[str, str]]", json.load(answer)["data"]["checks"])
            break
        except _NO_HEALTH as error:
            failed[address] = error
    if (failure := failed.pop(public, None)) is not None:
        why = str(failure).removeprefix("<urlopen error ").removesuffix(">")
        text, todo = f"{public} gives no health ({why})", _advise_address(public, failure)
        if checks is None:
            asked = "".join(f", nor does {other}" for other in failed)
            yield live_mode.wrong("service", text + asked, f"{todo}; set PORT to a part's on this machine")
            return
        # Such a name may be known to callers only.
        is_unknown = isinstance(getattr(failure, "reason", failure), socket.gaierror)
        yield (live_mode.note if is_unknown else live_mode.wrong)("address", f"{text}; {address} was asked instead", todo)
    bad = {name: check["error"] for name, check in (checks or {}).items() if "error" in check}
    for name, error in bad.items():
        yield live_mode.wrong(name, error, "see docs/guides/production.md and the service's log")
    if not bad:
        yield live_mode.ok("service", f"{address} is healthy")


def _advise_address(address: str, error: Exception) -> str:
    cause, host = getattr(error, "reason", error), urlsplit(address).hostname
    match cause:
        case socket.gaierror():
            return f"add {host} to your DNS, or correct PIXCONNECT_BASE_URL"
        case ssl.SSLError():
            return f"give the proxy a valid certificate for {host} (docs/guides/proxy.md)"
        case _:
            return "start the parts, or look at the proxy before them: docs/guides/production.md"


def _look_at_home(settings: Settings) -> Iterator[Symptom]:
    home, start = settings.home_path, write_start(settings)
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        yield live_mode.wrong("home", f"{existing} cannot be written", "make it writable, or set PIXCONNECT_HOME")
        return
    if not home.exists():
        # With its own database an installation may be without a home: its parts' address is looked at instead.
        if not settings.database_url:
            yield live_mode.note("home", f"nothing has run on {home}", f"start `{start}`, or set PIXCONNECT_HOME")
    elif home.stat().st_mode & 0o066:
        wanted = f"chmod {closed_mode(has_server=not settings.database_url):o} {home}"
        yield live_mode.wrong("home", f"{home} holds secrets and is open to others", wanted)
    elif _runs(home):
        yield live_mode.ok("home", f"the service runs on {home}")
    elif (home / RUNNING_FILE).exists():
        yield live_mode.wrong("home", f"the service on {home} was killed", f"start `{start}` again: it heals itself")
    elif not settings.database_url:
        yield live_mode.note("home", f"nothing runs on {home}", f"start `{start}`")
    free = shutil.disk_usage(existing).free
    finding = f"{free / (1 << 30):.1f} GiB are free at {existing}"
    if free < _FREE_OCTETS_MIN:
        yield live_mode.wrong("disk", finding, "make room: PostgreSQL stops where its disk is full")
    elif free < _FREE_OCTETS_GOOD:
        yield live_mode.note("disk", finding, "make room before it is full")
    else:
        yield live_mode.ok("disk", finding)


def _runs(home: Path) -> bool:
    """Whether a supervisor holds the home's lock, which ends with it in any case."""
    try:
        with (home / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _look_at_port(settings: Settings) -> Iterator[Symptom]:
    port = find_port(settings)
    if not port:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((settings.host.strip("[]"), port))
        except OSError as error:
            where = f"{settings.host}:{port} cannot be listened on ({error.strerror})"
            yield live_mode.wrong("port", where, "end the program that listens there, or set PORT to another")
            return
    yield live_mode.ok("port", f"{settings.host}:{port} is free")


def _look_at_database() -> Iterator[Symptom]:
    """Try each login as its part uses it, and the secret key."""
    from pixconnect.assembly import operators  # noqa: PLC0415  with it comes nearly everything

    try:
        settings = read_database_settings()
    except (CommandError, SettingsError) as error:
        yield live_mode.split("database", str(error))
        return
    taken: list[str] = []
    for name, role in operators.LOGIN_ROLES.items():
        if getattr(settings, name):
            variable = f"PIXCONNECT_{name.upper()}"
            finding = f"{variable} logs in" + (f" as {role}" if role else "")
            found = _try("login", finding, partial(operators.try_login, settings, name), variable)
            yield found
            if found.status == "ok":
                taken.append(name)
    # The login of `verify` comes last, and may not read what the key sealed.
    has_key = settings.secret_key or (settings.home_path / KEY_FILE).exists()
    if not has_key:
        todo = "set PIXCONNECT_SECRET_KEY_FILE or PIXCONNECT_HOME to try it"
        yield live_mode.note("secret_key", "not tried: no secret key is given", todo)
    elif taken[:1] not in ([], ["verify_database_url"]):
        given = "PIXCONNECT_SECRET_KEY" if settings.secret_key else settings.home_path / KEY_FILE
        finding = f"{environment.secret_files().get('secret_key', given)} opens the secrets of this database"
        yield _try("secret_key", finding, partial(operators.try_secret_key, settings, taken[0]))
    if has_key and settings.operators_url in [getattr(settings, name) for name in taken]:
        yield from _look_at_tables(is_operators=bool(settings.operator_database_url or settings.owner_database_url))


def _try(check: str, finding: str, look: Callable[[], Coroutine[object, object, None]], setting: str = "") -> Symptom:
    try:
        asyncio.run(look())
    except Exception as error:
        if setting and type(error).__name__ == "InsufficientPrivilegeError":
            return live_mode.wrong(check, f"{setting}: {error}", "run `pixconnect migrate` with this address")
        if (line := failures.explain(error, setting)) is None:
            raise  # an internal defect keeps its traceback
        return live_mode.split(check, f"{setting}: {line}" if setting else line)
    return live_mode.ok(check, finding)


def _look_at_tables(*, is_operators: bool = True) -> Iterator[Symptom]:
    from pixconnect.kernel.flows import installation  # noqa: PLC0415  with it comes nearly everything

    try:
        # The key has its own line.
        found = operating.run_with_other_key(installation.describe_database)
    except Exception as error:
        if not is_operators and type(error).__name__ == "InsufficientPrivilegeError":
            todo = "set PIXCONNECT_OPERATOR_DATABASE_URL to try it"
            yield live_mode.note("database", "operators' verbs were not tried: no login of theirs is given", todo)
            return
        if (line := failures.explain(error)) is None:
            raise
        yield live_mode.split("database", line)
        return
    yield live_mode.ok("database", f"PostgreSQL {found['postgresql']}, {found['mode']}")
    if found["inherited"]:
        yield live_mode.wrong("logins", "a login inherits a role that it should take", f"run `{found['inherited']}`")


def _look_at_service() -> Iterator[Symptom]:
    try:
        credentials = find_credentials()
    except SettingsError:
        # Another symptom has reported its fault.
        return
    except CommandError as error:
        settings = environment.read_settings()
        # An operator, who logs in to the database, needs none.
        if not (settings.operators_url or _runs(settings.home_path)):
            yield live_mode.note("credentials", str(error), "only a holder's verbs, such as `charge`, need them")
        return
    with connect(credentials) as client:
        try:
            with explaining(credentials):
                yield from _look_at_health(client, credentials)
                found = [*_look_as_far_as_allowed(client, credentials)]
                yield live_mode.ok("credentials", f"of {credentials.source}: the service takes them")
                yield from found
        except CommandError as error:
            yield live_mode.split("service", str(error))


def _look_at_health(client: Client, credentials: Credentials) -> Iterator[Symptom]:
    health = client.health()
    for name, check in health.checks.items():
        if check.status != "healthy":
            yield live_mode.wrong(name, check.error or check.status, "see docs/guides/production.md and the service's log")
    if health.status == "healthy":
        yield live_mode.ok("service", f"{credentials.api_url} is healthy, pixconnect {health.system.version or __version__}")
    if health.system.version not in {"", __version__}:
        yield live_mode.note(
            "version", f"the service is pixconnect {health.system.version}, this is {__version__}", "use the same"
        )


def _look_as_far_as_allowed(client: Client, credentials: Credentials) -> Iterator[Symptom]:
    """Return the client's view of the holder: a client with few scopes may be intended."""
    for look_at in (_look_at_holder, _look_at_sandbox, _look_at_endpoints):
        try:
            yield from look_at(client)
        except Forbidden as error:
            yield live_mode.note("scopes", error.message, advise_scope(error, credentials))


def _look_at_holder(client: Client) -> Iterator[Symptom]:
    if not client.balance().able_to_withdraw:
        yield live_mode.note("holder", "money may not go out", "ask an operator: `pixconnect holder set`")


def _look_at_sandbox(client: Client) -> Iterator[Symptom]:
    if not is_sandbox(client):
        return
    ahead_s = (client.sandbox.clock().now - datetime.now(UTC)).total_seconds()  # noqa: TID251 it compares the machine's own clock
    if abs(ahead_s) > _CLOCK_OFF_S:
        yield live_mode.note("clock", f"the sandbox's clock is {ahead_s:,.0f} s ahead", "`pixconnect clock reset`")
    else:
        yield live_mode.ok("clock", "the sandbox's clock is this machine's")
    if rules := client.sandbox.faults().rules:
        yield live_mode.note("faults", f"{len(rules)} rules let the network misbehave", "`pixconnect faults list | clear`")


def _look_at_endpoints(client: Client) -> Iterator[Symptom]:
    for endpoint in client.endpoints.list():
        what = f"{endpoint.id} ({endpoint.url})"
        if endpoint.status == "disabled":
            yield live_mode.wrong(
                "endpoint",
                f"{what} failed for too long and is disabled",
                f"mend the receiver, then `pixconnect operator endpoint resume {endpoint.id}`",
            )
            continue
        tried = [one for one in islice(client.deliveries.list(endpoint.id, page_size=_LOOKED_AT), _LOOKED_AT) if one.attempts]
        if tried and tried[0].status != "delivered":
            last = tried[0].attempts[-1]
            yield live_mode.wrong(
                "endpoint",
                f"{what} does not accept events: {last.status_code or last.error}",
                f"mend the receiver, then `pixconnect endpoint test {endpoint.id}`",
            )
        else:
            yield live_mode.ok("endpoint", f"{what} is {endpoint.status}")


_SIGNS = dict(ok="+", note="~", wrong="!")


def doctor(*, upgrade: Annotated[bool, Parameter(negative=(), show_default=False)] = False, json: Json = False) -> None:
    """Check this machine and the service; change nothing.

    `+` is fine, `~` may be intended, `!` must be repaired: then the exit status is 6.

    Args:
        upgrade: Print the settings and rows that this version will refuse, and the steps of `migrate`. Run the new version's
            program with this option before you migrate, beside the old one.
    """
    found: list[Symptom] = []
    for symptom in _look(upgrade=upgrade):
        found.append(symptom)
        # One after the other: some take a while.
        if not json:
            colour = "red" if symptom.status == "wrong" else "yellow" if symptom.status == "note" else "green"
            terminal.print_line(f"{terminal.paint(_SIGNS[symptom.status], colour)} {symptom.check}: {symptom.text}")
            if symptom.todo:
                terminal.print_line(f"    {symptom.todo}")
    if json:
        output.show_list("findings", [msgspec.to_builtins(symptom) for symptom in found], as_json=True)
    if wrong_count := sum(symptom.status == "wrong" for symptom in found):
        raise CommandError(f"{wrong_count} of {len(found)} must be mended", status=ExitStatus.FOUND)


def _look(*, upgrade: bool) -> Iterator[Symptom]:
    yield from look(looks_at_tables=not upgrade)
    if upgrade:
        from pixconnect.running import migrate  # noqa: PLC0415  with it comes nearly everything

        # Not the service's: it is still the old one.
        yield from migrate.look_at_upgrade()
    else:
        yield from _look_at_service()
