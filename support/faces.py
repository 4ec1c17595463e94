"""A simulated bank with everything behind it on loopback: tokens, use cases, a real database, a delivering worker."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import msgspec
from msgspec import Struct, structs

from pixconnect.assembly.application import make_application
from pixconnect.doors.api.operation import Services
from pixconnect.features.identity.service import access as access_usecases
from pixconnect.features.identity.service.access import TokenVerifier
from pixconnect.features.identity.service.keyring import Keyring
from pixconnect.features.identity.service.token_issuer import TokenIssuer
from pixconnect.features.institutions.accounts import FACE_ANSWERS
from pixconnect.features.institutions.profiles.profile import read_profile
from pixconnect.features.sandbox.network.behaviour import Chance, Faults, check_rules
from pixconnect.features.sandbox.rules import DRAW_FAULT, FaultAnswer, FaultMatch, FaultRule, Message, SandboxControl
from pixconnect.features.sandbox.service.sandbox import SANDBOX_CONTROL
from pixconnect.kernel.flows import holder as holder_usecases
from pixconnect.kernel.flows import ledger as ledger_usecases
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.flows.incoming import receive_credit
from pixconnect.kernel.flows.settlement import end_orders
from pixconnect.kernel.rules.access import SCOPES, IssuedClient
from pixconnect.kernel.rules.order import Ending
from pixconnect.kernel.rules.rail import DirectoryEntry, Settled
from pixconnect.platform.adapters.qr_image import QrPictures
from pixconnect.platform.base.clock import Clock
from pixconnect.platform.http.server import Server
from pixconnect.platform.logging import AccessLog
from support import postgres
from support.api import Answer, Api
from support.identity import keyring_of
from support.operators import as_operator
from support.records import outside_party, own_key
from support.service import credit_report
from support.webhooks import Receiver, WebhookService, open_receiver, open_webhook_service

ACCOUNT = "1001"
KEY = own_key(ACCOUNT)
PAYEE = "settle@sandbox.pix.example"


class Bank(Struct, frozen=True, kw_only=True):
    service: WebhookService
    receiver: Receiver
    services: Services
    issued: IssuedClient
    account: str = ACCOUNT  # the number of its client's account

    @property
    def key(self) -> str:
        return own_key(self.account)

    def answering(self, **answers: str) -> Api:
        """The simulated bank, called in this process, with chosen answers."""
        context = _choose(self.services.context, answers)
        services = structs.replace(self.services, context=context)
        return Api(make_application(services, AccessLog(self.service.context.clock, wanted="off")))

    def choosing(self, **answers: str) -> WebhookService:
        """The context of a worker with the chosen answers."""
        return structs.replace(self.service, context=_choose(self.service.context, answers))

    @property
    def hook(self) -> str:
        return f"{self.receiver.url}?hmac=s3cret&ignorar="

    async def be_paid(
        self, txid: str | None, amount_cents: int = 1000, end_to_end_id: str | None = None, key: str | None = None
    ) -> str:
        report = credit_report(
            self.service, account_number=self.account, txid=txid, amount_cents=amount_cents, end_to_end_id=end_to_end_id
        )
        payee = structs.replace(report.credit_party, key=key or report.credit_party.key)
        await receive_credit(self.service.context, structs.replace(report, credit_party=payee))
        return report.end_to_end_id

    async def count_sent(self) -> int:
        return await self.service.fetchval("select count(*) as count from transfer where direction = 'OUT'")

    async def settle_sent(self) -> None:
        (row,) = await self.service.fetch("select end_to_end_id from transfer where direction = 'OUT'")
        now = self.service.context.clock.now()
        await end_orders(self.service.context, [(row["end_to_end_id"], Settled(settled_at=now))])

    async def count_more(self, count: int) -> None:
        """Make lists count so many more transfers, of two hours ago."""
        statement = """
            insert into tally_change (holder_id, kind, status, hour, change)
            values ($1, 'transfer', 'CONFIRMED', date_trunc('hour', $2::timestamptz) - interval '2 hours', $3)
        """
        context = self.service.context
        await context.pool.execute(statement, self.service.caller.holder_id, context.clock.now(), count)

    async def take_token(self, api: Api, face: str = "efi") -> dict[str, Any]:
        body = {"grant_type": "client_credentials", "client_id": self.issued.client.client_id}
        path = read_profile(face.partition("+")[0]).token.path
        answer = await api.post(f"/faces/{face}{path}", body | {"client_secret": self.issued.client_secret}, token=None)
        assert answer.status == 200, answer
        return answer.body


class Control:
    """The sandbox's rules, without a sandbox."""

    def __init__(self) -> None:
        self.faults = Faults(Chance(1))

    async def call(self, what: object, asked: Message) -> FaultAnswer:
        assert what is DRAW_FAULT
        msgspec.json.encode(asked)  # as it goes to the sandbox
        return FaultAnswer(effect=self.faults.draw(asked))

    def set(self, *rules: tuple[str, str], **match: Any) -> None:
        made = [
            FaultRule(effect=effect, match=FaultMatch(operation=cast("Any", operation), **match), times=1)
            for operation, effect in rules
        ]
        check_rules(made)
        self.faults.replace(made)


class FaceClient:
    """Calls the operations of a face of an institution as one client."""

    def __init__(self, bank: Bank, api: Api, name: str, authorization: str) -> None:
        self.bank = bank
        self.headers = {"authorization": authorization}
        self._api = api
        self._prefix = f"/faces/{name}"

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        raw = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        named = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._api.call(method, self._prefix + path, raw, token=None, headers=named)

    async def end_order(self, end_to_end_id: str, outcome: Ending | None = None) -> None:
        context = self.bank.service.context
        await end_orders(context, [(end_to_end_id, outcome or Settled(settled_at=context.clock.now()))])


def _choose(context: Context, answers: Mapping[str, str]) -> Context:
    return context.with_port(FACE_ANSWERS, answers)


@asynccontextmanager
async def listening(bank: Bank) -> AsyncIterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server, is_ready = Server(bank.answering().app), asyncio.Event()
    serving = asyncio.create_task(server.serve([listener], on_ready=is_ready.set))
    await is_ready.wait()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.stop()
    await serving


@asynccontextmanager
async def open_bank(
    database: postgres.Addresses, services: Services, clock: Clock | None = None, control: object = None, account: str = ACCOUNT
) -> AsyncIterator[Bank]:
    """Start a bank; ``control``, if given, has its failure rules."""
    async with (
        open_webhook_service(database, clock=clock, account_number=account) as opened,
        open_receiver() as receiver,
    ):
        rules = opened.context.port(SANDBOX_CONTROL) if control is None else cast("SandboxControl", control)
        service = structs.replace(opened, context=opened.context.with_port(SANDBOX_CONTROL, rules))
        context, operator = service.context, as_operator(service.context)
        holder_id = service.caller.holder_id
        await holder_usecases.add_pix_key(operator, holder_id, "EMAIL", own_key(account))
        await ledger_usecases.deposit(context, holder_id, 1_000_000)
        service.rail.entries[PAYEE] = DirectoryEntry(key=PAYEE, key_type="EMAIL", party=outside_party(key=PAYEE))
        issued = await access_usecases.create_client(operator, holder_id, "a shop", SCOPES)
        keyring = keyring_of(context)
        verifier = TokenVerifier(context, keyring, context.pool)
        fresh = asyncio.create_task(verifier.keep_fresh())
        served = structs.replace(
            services,
            context=context,
            verifier=verifier,
            of_features=services.of_features | {TokenIssuer: TokenIssuer(context, keyring), Keyring: keyring},
            draw_qr_png=QrPictures(services.turns).draw,
        )
        yield Bank(service=service, receiver=receiver, services=served, issued=issued, account=account)
        fresh.cancel()
        await asyncio.gather(fresh, return_exceptions=True)
