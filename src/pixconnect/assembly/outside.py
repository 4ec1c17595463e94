"""Assembles outgoing clients: the rail, the reader of outside QR codes, and the sender of webhooks."""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from cryptography import x509
from msgspec import Struct

from pixconnect.features.locations.certificate_chain import Trusted, trust_bundle, trust_sandbox
from pixconnect.features.locations.outside_location_reader import LIMITS as LOCATION_LIMITS
from pixconnect.features.locations.outside_location_reader import LocationReader
from pixconnect.features.sandbox.rail import HttpSandboxControl, SandboxConnection, SandboxRail
from pixconnect.kernel.flows.no_rail import NoRail
from pixconnect.kernel.rules.rail import Rail
from pixconnect.platform.adapters.name_lookup import DnsLookup, NameLookups
from pixconnect.platform.adapters.outgoing_http import LIMITS as WEBHOOK_LIMITS
from pixconnect.platform.adapters.outgoing_http import OutgoingHttp, WebhookSender, make_tls
from pixconnect.platform.adapters.secret_box import AesSecretBox
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base.address_rules import NO_HOSTS, NamedHosts, parse_named_hosts
from pixconnect.platform.config import Settings, SettingsError
from pixconnect.platform.environment import read_named_file

_RECEIVERS_HINT = (
    "; a sandbox also posts to http://localhost, where only its own machine reaches it, and to the hosts that "
    "PIXCONNECT_SANDBOX_RECEIVERS names"
)


def has_rail(settings: Settings) -> bool:
    """Whether ``open_rail`` opens one: without a rail no order is handed over."""
    return settings.mode == "sandbox"


class SharedParts(Struct, frozen=True, kw_only=True):
    rail: Rail
    control: HttpSandboxControl | None
    locations: LocationReader
    receivers: WebhookSender


@asynccontextmanager
async def open_shared_parts(settings: Settings, secret_box: AesSecretBox, clock: SystemClock) -> AsyncGenerator[SharedParts]:
    """Open it; raises ``SettingsError`` and ``ClientCertificateError``."""
    async with (
        open_rail(settings, secret_box) as (rail, control),
        open_outgoing(settings, clock, control) as (locations, receivers),
    ):
        yield SharedParts(rail=rail, control=control, locations=locations, receivers=receivers)


@asynccontextmanager
async def open_rail(settings: Settings, secret_box: AesSecretBox) -> AsyncGenerator[tuple[Rail, HttpSandboxControl | None]]:
    """The network of this mode, and in the sandbox the control over it."""
    if not has_rail(settings):
        yield NoRail(), None
        return
    if not settings.rail_url:
        raise SettingsError("PIXCONNECT_RAIL_URL: missing; it is where `pixconnect sandbox` answers")
    connection = SandboxConnection(settings.rail_url, rail_secrets(secret_box)[0])
    try:
        yield SandboxRail(connection), HttpSandboxControl(connection)
    finally:
        await connection.close()


@asynccontextmanager
async def open_outgoing(
    settings: Settings, clock: SystemClock, control: HttpSandboxControl | None
) -> AsyncGenerator[tuple[LocationReader, WebhookSender]]:
    """Open the reader of outside QR codes, and the sender of webhooks."""
    is_sandbox, allows_loopback = settings.mode == "sandbox", settings.may_reach_loopback
    forbidden, lookups = settings.read_networks("forbidden_networks"), NameLookups(DnsLookup())
    # Receivers and the hosts of QR codes have limits and connections of their own: neither can use up the other's.
    webhook_http = OutgoingHttp(WEBHOOK_LIMITS, lookups, make_tls(*settings.webhook_tls_files), forbidden)
    location_http = OutgoingHttp(LOCATION_LIMITS, lookups, make_tls(), forbidden)
    locations = LocationReader(
        location_http,
        clock,
        read_trusted(settings, control),
        allows_loopback=allows_loopback,
        # The simulated network serves its codes on loopback and without TLS, which no other host may.
        sandbox_authority=urlsplit(settings.rail_url).netloc if is_sandbox else None,
    )
    receivers = WebhookSender(
        webhook_http,
        allows_loopback=allows_loopback,
        named=read_named_receivers(settings),
        hint=_RECEIVERS_HINT if is_sandbox else "",
    )
    try:
        yield locations, receivers
    finally:
        await location_http.close()
        await webhook_http.close()


def read_named_receivers(settings: Settings) -> NamedHosts:
    """Hosts that the operator of a sandbox permits to receivers; raises ``SettingsError``."""
    try:
        named = parse_named_hosts(settings.sandbox_receivers)
    except ValueError as error:
        raise SettingsError(f"PIXCONNECT_SANDBOX_RECEIVERS: {error}") from None
    return named if settings.mode == "sandbox" else NO_HOSTS


def read_trusted(settings: Settings, control: HttpSandboxControl | None) -> Trusted:
    """Return the CAs trusted for QR codes' payloads: the sandbox's own, or in live mode the configured bundle.

    Raises ``SettingsError`` if the bundle cannot be read.
    """
    if control is not None:
        return trust_sandbox(control)
    if settings.location_ca_file:
        try:
            return trust_bundle(read_named_file(settings.location_ca_file))
        except (OSError, ValueError) as error:
            raise SettingsError(f"PIXCONNECT_LOCATION_CA_FILE: {settings.location_ca_file} cannot be read ({error})") from None

    # Without a bundle, foreign dynamic codes cannot be paid; everything else works.
    async def trust_none() -> Sequence[x509.Certificate]:
        return ()

    return trust_none


def rail_secrets(secret_box: AesSecretBox) -> Sequence[str]:
    """Return the passwords between the service and its sandbox, the current one first."""
    # Derived from the secret key, which only these two processes on the machine have.
    prints = secret_box.fingerprints(b"", "sandbox")
    return [hashlib.blake2b(one, digest_size=16).hexdigest() for one in prints]
