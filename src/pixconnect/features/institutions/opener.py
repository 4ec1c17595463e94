"""Opens accounts at institutions: for a process when it first needs one, and for an operator's verb.

The adapter is chosen by the account's kind, and configured by its profile.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from cryptography import x509

from pixconnect.features.institutions.accounts import CALLS, FACE_ANSWERS, INSTITUTIONS, OPEN_RAIL, CallCounts
from pixconnect.features.institutions.adapters import connection
from pixconnect.features.institutions.adapters.efi import EfiInstitution
from pixconnect.features.institutions.adapters.inter import InterInstitution
from pixconnect.features.institutions.adapters.sicoob import SicoobInstitution
from pixconnect.features.institutions.adapters.standard import ConnectedInstitution, StandardInstitution
from pixconnect.features.institutions.adapters.token import CallParts
from pixconnect.features.institutions.adapters.woovi import WooviInstitution
from pixconnect.features.institutions.profiles.profile import NAMES, parse_answers, read_profile
from pixconnect.features.institutions.rail import InstitutionRail
from pixconnect.features.institutions.rules.account import (
    AccountCertificate,
    CertificatePart,
    Credential,
    InstitutionAccount,
    find_address_fault,
)
from pixconnect.features.institutions.rules.account_file import read_credential_files
from pixconnect.features.institutions.rules.institution import Institution, OpenAccount
from pixconnect.features.institutions.rules.rail_memory import RailMemory
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.features.institutions.service.open_accounts import OpenAccounts, OpenInstitution
from pixconnect.features.institutions.service.webhook import CALLBACKS, Callbacks
from pixconnect.kernel.flows.context import Core, Port, PortRow
from pixconnect.kernel.flows.server_watch import ServerWatch
from pixconnect.kernel.rules.rail import Rail
from pixconnect.platform.adapters.outgoing_http import ClientCertificateError
from pixconnect.platform.adapters.secret_box import open_sending_box
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.base.entropy import Entropy
from pixconnect.platform.config import Settings
from pixconnect.platform.environment import read_named_file

_FILE_LENGTH_MAX: Final = 64 * 1024
_BOUNDS: Final = connection.CallBounds()
_KINDS: Final = dict[str, type[ConnectedInstitution]](
    efi=EfiInstitution, inter=InterInstitution, sicoob=SicoobInstitution, woovi=WooviInstitution, standard=StandardInstitution
)


def open_institution(
    account: InstitutionAccount,
    credential: Credential,
    clock: Clock,
    entropy: Entropy,
    bounds: connection.CallBounds = _BOUNDS,
    connect: Callable[
        [ssl.SSLContext, connection.CallBounds], connection.InstitutionConnection
    ] = connection.InstitutionConnection,
    note: Callable[[str], None] = lambda _: None,
) -> Institution:
    """Open the account's port, in one event loop; nothing is sent yet.

    Args:
        connect: Another kind of connection, such as a recording one.
        note: Receives each call's outcome, in one word.

    Raises:
        BadRequest: An address is not permitted for its credentials, or the certificate cannot be used. The text names the
            member of the account's file, and contains no secrets.
    """
    name = account.profile_name
    if name not in NAMES:
        raise errors.BadRequest(f"profile: there is no {name[:64]!r}; there are {', '.join(NAMES)}")
    profile = read_profile(name)
    if (fault := find_address_fault(account, profile.account)) is not None:
        raise errors.BadRequest(fault)
    if profile.client_certificate == "required" and not credential.certificate:
        raise errors.BadRequest("certificate_file: this institution takes no connection without a client certificate")
    try:
        tls = connection.make_account_tls(credential.certificate, credential.private_key, account.authorities)
    except ClientCertificateError as error:
        raise errors.BadRequest(f"certificate_file, private_key_file, ca_file: {error}") from None
    is_homologation = account.environment == "homologation"
    parts = CallParts(
        connection=connect(tls, bounds),
        host=connection.parse_institution_host(account.base_url),
        account=account,
        credential=credential,
        traits=profile.account,
        token=profile.token,
        paces=connection.CallPaces(profile.account, clock, entropy, is_homologation=is_homologation),
        clock=clock,
        entropy=entropy,
        bounds=bounds,
        certificates=_read_certificates(credential, account),
        note=note,
    )
    return _KINDS[account.kind](parts, profile)


def _read_certificates(credential: Credential, account: InstitutionAccount) -> Sequence[AccountCertificate]:
    """Read the certificates of the client and of the institution's authorities; of several in one file the first that ends."""
    pems: dict[CertificatePart, str] = {"receiving": credential.certificate, "authority": account.authorities}
    return [
        AccountCertificate(part=part, ends_at=min(one.not_valid_after_utc for one in found))
        for part, pem in pems.items()
        if pem and (found := x509.load_pem_x509_certificates(pem.encode()))
    ]


def make_opener(
    clock: Clock, entropy: Entropy, note: Callable[[TakenExchange], None] | None = None, calls: CallCounts | None = None
) -> OpenInstitution:
    """Return what opens accounts in this process; it raises ``BadRequest`` for a wrong description or a missing secret.

    Args:
        note: Receives each exchange, with all that is secret in it.
    """
    # An operator's verb ends with its answer, so its calls are not counted.
    counted = CallCounts() if calls is None else calls
    connect = connection.InstitutionConnection if note is None else partial(connection.RecordedConnection, note=note)

    def open_account(account: InstitutionAccount, credential: Credential) -> Institution:
        def count(outcome: str) -> None:
            counted[account.name, outcome] += 1

        whole = read_credential_files(credential, read_text_file) if credential.is_outside else credential
        return open_institution(account, whole, clock, entropy, connect=connect, note=count)

    return open_account


def read_text_file(path: str) -> str:
    """The text of a file of a secret store, or of one that an account's file names; ``BadRequest`` names it."""
    try:
        found = read_named_file(Path(path).expanduser(), _FILE_LENGTH_MAX)
    except OSError as error:
        raise errors.BadRequest(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RuntimeError):
        # A NUL in it, or an unknown user's home.
        raise errors.BadRequest("a file's name cannot be one") from None
    try:
        return found.decode("utf-8")
    except UnicodeDecodeError:
        raise errors.BadRequest(f"{path}: is no text in UTF-8") from None


@asynccontextmanager
async def _open_ports(settings: Settings, core: Core, server: ServerWatch) -> AsyncGenerator[Mapping[Port[Any], Any]]:
    """The accounts of a process, each opened when it is first needed, and the counts of its calls."""
    calls = CallCounts()
    # API processes do not get the key of sending credentials.
    sending_box = open_sending_box(settings.sending_secret_key, settings.sending_secret_key_previous, core.entropy)
    opener = make_opener(core.clock, core.entropy, calls=calls)
    accounts = OpenAccounts(core.pool, core.secret_box, opener, core.clock.monotonic_s, sending_box)
    # A loss pauses them.
    server.on_start(accounts.forget)

    def open_rail(opened: OpenAccount, memory: RailMemory) -> Rail:
        return InstitutionRail(opened.institution, memory, core.clock, opened.own_sender)

    answers = parse_answers(settings.face_answers, settings.sandbox_seed)
    try:
        yield {INSTITUTIONS: accounts, CALLS: calls, CALLBACKS: Callbacks(core), FACE_ANSWERS: answers, OPEN_RAIL: open_rail}
    finally:
        await accounts.close()


PORTS: Final = (PortRow(open=_open_ports),)
