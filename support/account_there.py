"""A simulated bank over TLS with client certificates in this process, and the service's account at it."""

import asyncio
import base64
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from msgspec import Struct, structs

from pixconnect.assembly.application import make_application
from pixconnect.features.institutions.accounts import FACE_ANSWERS
from pixconnect.features.institutions.adapters.connection import InstitutionConnection, RecordedConnection
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import Credential, InstitutionAccount
from pixconnect.features.institutions.rules.institution import Institution, NotSent, UnknownOutcome
from pixconnect.features.institutions.rules.rail_memory import OutgoingPix
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.kernel.rules.holder import UNKNOWN_PARTY
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.http.server import Server
from pixconnect.platform.http.tls import Tls, make_context
from pixconnect.platform.logging import AccessLog
from pixconnect_faces.api import FaceDoor
from pixconnect_faces.frame import PREFIX
from support.faces import KEY, PAYEE, Bank
from support.institution import certify

SAYS_NOTHING = (
    ("no_answer", UnknownOutcome, True),
    ("lost", UnknownOutcome, False),
    ("html:after", UnknownOutcome, True),
    ("too_many:1", NotSent, False),
)
"""Faults of a call: the adapter's answer, and whether the bank carried the call out anyway."""


NAME = "34c6ee378432224104a8e8b0d45d767b"
TO_KEY = OutgoingPix(
    name=NAME, amount_cents=150, payer_key=None, payee=structs.replace(UNKNOWN_PARTY, key=PAYEE, key_type="EMAIL"),
    is_by_key=True, payer_message="for the cake",
)  # fmt: skip


class Papers(Struct, frozen=True):
    """An authority, and certificates of a server and a client; all PEM."""

    authority: str
    server: str
    server_key: str
    client: str
    client_key: str


def make_papers(client_name: str) -> Papers:
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = certify(authority_key, "Authority of a test", ca=True)
    made = [authority.public_bytes(Encoding.PEM).decode()]
    for name, hosts in (("127.0.0.1", ("127.0.0.1", "localhost")), (client_name, ())):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = certify(key, name, (authority_key, authority), hosts=hosts)
        made.append(certificate.public_bytes(Encoding.PEM).decode())
        made.append(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode())
    return Papers(*made)


def make_account(kind: str, base_url: str, **changes: Any) -> InstitutionAccount:
    """An account's counterpart of an institution's kind or of a profile of the standard; a keyword changes one member."""
    is_own = kind in ("efi", "inter", "woovi", "sicoob")
    account = InstitutionAccount(
        id=1,
        name="theirs",
        kind=kind if is_own else "standard",  # type: ignore[arg-type]  a name of either
        profile=kind,
        environment="counterpart",
        state="active",
        tax_id="11222333000181",
        base_url=base_url,
        token_url="",
        authorities="",
        account="",
        keys=(KEY,),
        poll_s=15,
        options={},
        house_id=7,
        opened_at=SystemClock().now(),
        opening_cents=0,
        revision=0,
        created_at=SystemClock().now(),
    )
    return structs.replace(account, **changes)


class AccountThere(Struct, frozen=True, kw_only=True):
    institution: Institution
    account: InstitutionAccount
    credential: Credential


@asynccontextmanager
async def open_account_there(
    bank: Bank,
    face: str,
    folder: Path,
    *,
    answers: Mapping[str, str] | None = None,
    note: Callable[[TakenExchange], None] | None = None,
    **changes: Any,
) -> AsyncIterator[AccountThere]:
    """Serve a simulated bank on a free port, and open the bank client's account at it.

    Each exchange is passed to ``note``.
    """
    profile, issued = read_profile(face), bank.issued
    papers = make_papers(issued.client.client_id)
    files = [folder / name for name in ("server.pem", "server.key", "authority.pem")]
    for file, text in zip(files, (papers.server, papers.server_key, papers.authority), strict=True):
        file.write_text(text)
    context = make_context(*map(str, files), is_required=profile.client_certificate == "required")
    chosen = bank.services.context
    if answers:
        chosen = chosen.with_port(FACE_ANSWERS, answers)
    services = structs.replace(bank.services, context=chosen)
    application = make_application(services, AccessLog(chosen.clock, wanted="off"))
    listener = socket.create_server(("127.0.0.1", 0))
    server, is_ready = Server(application), asyncio.Event()
    door = Tls(context=context, sockets=[listener], app=FaceDoor(application, PREFIX + face))
    serving = asyncio.create_task(server.serve([], tls=[door], on_ready=is_ready.set))
    await is_ready.wait()
    has_certificate = profile.client_certificate == "required"
    secret = issued.client_secret
    if face == "woovi":
        secret = make_app_id(issued.client.client_id, issued.client_secret)
    credential = Credential(
        client_id=issued.client.client_id,
        client_secret="" if face == "sicoob" else secret,
        certificate=papers.client if has_certificate else "",
        private_key=papers.client_key if has_certificate else "",
    )
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    account = make_account(face, url, **{"authorities": papers.authority, **changes})
    connect = InstitutionConnection if note is None else partial(RecordedConnection, note=note)
    institution = open_institution(account, credential, SystemClock(), SystemEntropy(), connect=connect)
    try:
        yield AccountThere(institution=institution, account=account, credential=credential)
    finally:
        await institution.close()
        server.stop()
        await serving


def make_app_id(client_id: str, client_secret: str) -> str:
    """The AppID of a client at the simulated Woovi."""
    return base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
