"""``doctor``'s checks of the service: it answers, is healthy, and the credentials and endpoints work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from pixconnect import __version__
from pixconnect.doors.cli import live_mode
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.integrator.credentials import Credentials, find_credentials
from pixconnect.doors.cli.integrator.session import advise_scope, connect, explaining, is_sandbox
from pixconnect.doors.cli.live_mode import Symptom
from pixconnect.platform.config import SettingsError
from pixconnect_client import Client, Forbidden

_CLOCK_OFF_S: Final = 5
_LOOKED_AT: Final = 10


def look() -> Iterator[Symptom]:
    try:
        credentials = find_credentials()
    except SettingsError:
        # Another symptom has reported its fault.
        return
    except CommandError as error:
        yield live_mode.note("credentials", str(error), "only one holder's verbs need them")
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
            yield live_mode.wrong(
                name, check.error or check.status, "see docs/guides/production.md and the service's log"
            )
    if health.status == "healthy":
        yield live_mode.ok(
            "service", f"{credentials.api_url} is healthy, pixconnect {health.system.version or __version__}"
        )
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
        yield live_mode.note(
            "faults", f"{len(rules)} rules let the network misbehave", "`pixconnect faults list | clear`"
        )


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
        tried = [
            one for one in islice(client.deliveries.list(endpoint.id, page_size=_LOOKED_AT), _LOOKED_AT) if one.attempts
        ]
        if tried and tried[0].status != "delivered":
            last = tried[0].attempts[-1]
            yield live_mode.wrong(
                "endpoint",
                f"{what} does not accept events: {last.status_code or last.error}",
                f"mend the receiver, then `pixconnect endpoint test {endpoint.id}`",
            )
        else:
            yield live_mode.ok("endpoint", f"{what} is {endpoint.status}")
