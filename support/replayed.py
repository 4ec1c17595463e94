"""An institution that answers from the recording of a rehearsal in order, and a rehearsal against it."""

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from pixconnect.features.institutions.adapters.connection import (
    AnswerLost,
    CallBounds,
    InstitutionConnection,
    InstitutionHost,
    NoConnection,
)
from pixconnect.features.institutions.opener import open_institution
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.institutions.rules.account import Credential
from pixconnect.features.institutions.rules.recording import RecordedExchange, RehearsalRecording, RehearsedStep
from pixconnect.features.institutions.service.rehearsal import RehearsalTerms, walk
from pixconnect.platform.adapters.system import SystemClock, SystemEntropy
from pixconnect.platform.http.client import ReceivedAnswer
from support.account_there import make_account, make_papers

RECORDINGS = Path(__file__).parent.parent / "tests" / "vectors" / "recordings"


class ReplayedConnection(InstitutionConnection):
    """A transport without a network: each request must be the next recorded one, except for random names."""

    def __init__(self, exchanges: Sequence[RecordedExchange], tls: ssl.SSLContext, bounds: CallBounds) -> None:
        super().__init__(tls, bounds)
        self._left = list(exchanges)

    @property
    def left_count(self) -> int:
        return len(self._left)

    async def exchange(self, host: InstitutionHost, request: bytes, body_max: int, **bounds: Any) -> ReceivedAnswer:
        method, target, _ = request.partition(b"\r\n")[0].decode().split(" ")
        path = unquote(urlsplit(target).path)
        assert self._left, f"{method} {path} was not recorded"
        recorded = self._left.pop(0)
        assert (recorded.method, _shape(recorded.path)) == (method, _shape(path)), (recorded.path, path)
        if recorded.status is None:
            name, _, reason = (recorded.failure or "").partition(": ")
            raise (NoConnection if name == "NoConnection" else AnswerLost)(reason)
        body = b"?" if recorded.form == "other" else b""
        if recorded.form == "json":
            body = msgspec.json.encode(recorded.content)
        headers = {"content-type": recorded.media_type, "content-length": str(len(body))}
        return ReceivedAnswer(status_code=recorded.status, headers=headers, body=body)


def _shape(path: str) -> list[str]:
    """A path without random names."""
    return ["*" if len(part) == 32 and part.isalnum() else part for part in path.split("/")]


async def rehearse_again(recording: RehearsalRecording, **changes: Any) -> list[RehearsedStep]:
    """Repeat the recorded rehearsal through the account's adapter, with the recorded answers."""
    profile = read_profile(recording.profile)
    connections = list[ReplayedConnection]()

    def connect(tls: ssl.SSLContext, bounds: CallBounds) -> InstitutionConnection:
        connections.append(ReplayedConnection(recording.exchanges, tls, bounds))
        return connections[0]

    environment = recording.environment
    hosts = profile.account.hosts.get("homologation", ()) if environment == "homologation" else ("127.0.0.1",)
    account = make_account(recording.profile, f"https://{hosts[0]}", environment=environment, keys=(recording.key,), **changes)
    papers = make_papers("client") if profile.client_certificate == "required" else None
    credential = Credential(
        # As recordings have it.
        client_id="redacted",
        client_secret="redacted",
        certificate=papers.client if papers else "",
        private_key=papers.client_key if papers else "",
    )
    institution = open_institution(account, credential, SystemClock(), SystemEntropy(), connect=connect)
    plan = RehearsalTerms(
        profile=profile, keys=account.keys, txid=recording.txid, refund_id=recording.refund_id, at=recording.made_at,
        returns=recording.refunds,
    )  # fmt: skip
    steps = await walk(institution, plan)
    await institution.close()
    assert connections[0].left_count == 0, "the recording has more than was asked"
    return steps
