"""A sandbox, an API and a worker of one installation in this process, on two databases that are its cells."""

import asyncio
import base64
import dataclasses
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from msgspec import Struct

from pixconnect.adapters.system import SystemClock
from pixconnect.assembly import api, cells, sandbox, worker
from pixconnect.config import Settings
from pixconnect.domain.frame import cell
from pixconnect.domain.identity.access import SCOPES
from pixconnect.usecases.frame.context import Context
from pixconnect.usecases.frame.operator import Operator
from pixconnect.usecases.identity import access as access_usecases
from pixconnect.usecases.money import holder as holder_usecases
from pixconnect.worker import run as worker_run
from pixconnect.worker.run import WorkerParts
from support.cells import NUMBER, add_cell, lead_to
from support.cut_connections import Wire, open_wire
from support.identity import SECRET_KEY, a_new_holder, open_context
from support.operators import as_operator
from support.ports import reserved_port
from support.postgres import Addresses

_READY_WITHIN_S = 30

Run = Callable[[asyncio.Event, Callable[[], None]], Awaitable[None]]


class Resident(Struct, frozen=True, kw_only=True):
    """A holder with a client, as a caller who knows nothing of cells."""

    http: httpx2.AsyncClient
    holder_id: int
    key: str
    client_id: str
    client_secret: str
    headers: dict[str, str]

    async def log_in(self) -> httpx2.Response:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.client_id,
            "client_secret": self.client_secret,
        }
        answer = await self.http.post("/v1/iam/users/login", data=form)
        if answer.status_code == 200:
            self.headers["Authorization"] = f"Bearer {answer.json()['data']['access_token']}"
        return answer

    async def ask(self, method: str, path: str, body: object = None, query: Mapping[str, Any] | None = None) -> Any:
        return await self.http.request(method, path, json=body, params=query, headers=self.headers)

    async def done(self, method: str, path: str, body: object = None, query: Mapping[str, Any] | None = None) -> Any:
        answer = await self.ask(method, path, body, query)
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]


class House(Struct, frozen=True, kw_only=True):
    http: httpx2.AsyncClient
    contexts: Mapping[int, Context]
    """By the number of the cell: for what no caller may do."""
    wire: Wire
    """Between the processes and the second cell's database."""
    settings: Settings
    databases: Mapping[int, Addresses]
    near: Addresses
    """The second cell's, by the wire."""
    begun: list[int]
    """The cells in which a worker has begun to work, as often as it did."""

    async def add_cell(self) -> None:
        await add_cell(self.databases[cell.HOME], self.near)

    async def lead_to(self, near: Addresses) -> None:
        """Let the home cell say that the second cell is at another address."""
        await lead_to(self.databases[cell.HOME], near)

    def settings_of(self, number: int) -> Settings:
        """Those of a process that would begin at this cell."""
        return dataclasses.replace(self.settings, database_url=self.databases[number].service_url)

    def operator_of(self, number: int) -> Operator:
        """Somebody who works in this cell, and says names of its holders in the home cell."""
        return as_operator(self.contexts[number], home=None if number == cell.HOME else self.contexts[cell.HOME])

    async def open_holder(self, number: int, funds_cents: int = 0, *, logs_in: bool = True) -> Resident:
        """A holder in this cell, who has logged in."""
        operator = self.operator_of(number)
        holder = await holder_usecases.create_holder(operator, a_new_holder(account_number=f"70{number:04d}"))
        key = f"holder-{number}@house.example"
        await holder_usecases.add_pix_key(operator, holder.id, "EMAIL", key)
        issued = await access_usecases.create_client(operator, holder.id, "a shop", SCOPES)
        resident = Resident(
            http=self.http,
            holder_id=holder.id,
            key=key,
            client_id=issued.client.client_id,
            client_secret=issued.client_secret,
            headers={},
        )
        if logs_in:
            assert (await resident.log_in()).status_code == 200
        if funds_cents:
            await resident.done("POST", "/sandbox/v1/deposits", {"amount": funds_cents})
        return resident


@asynccontextmanager
async def open_house(
    home: Addresses,
    other: Addresses,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_away_at_first: bool = False,
    has_other_identity: bool = False,
    is_added: bool = True,
    is_looked_at_often: bool = False,
    has_defect: bool = False,
) -> AsyncIterator[House]:
    """The processes, ready.

    Args:
        home: The home cell's database.
        other: The second cell's.
        folder: The home of the processes.
        monkeypatch: Of the test.
        is_away_at_first: The second cell's database is not there when they start.
        has_other_identity: It says that it is another cell.
        is_added: The home cell knows it when they start; otherwise by ``House.add_cell``.
        is_looked_at_often: They look each second at what the home cell knows.
        has_defect: A worker meets one when it begins in the second cell, the first time.
    """
    for process in (api, worker, sandbox):
        # They would configure the logs of all tests.
        monkeypatch.setattr(process, "set_up_logging", lambda *_, **__: None)
    if is_away_at_first or has_other_identity or has_defect:
        # Each process waits for it so long, and in vain.
        monkeypatch.setattr(cells, "READY_WITHIN_S", 0.1)
    if is_looked_at_often or not is_added:
        monkeypatch.setattr(cells, "LOOK_EVERY_S", cells.LOOK_EVERY_MIN_S)
    work, begun = worker_run.work, list[int]()

    async def note_begin(parts: WorkerParts, stopped: asyncio.Event, report_ready: Callable[[], None]) -> None:
        number = parts.context.policy.cell
        begun.append(number)
        if has_defect and number == NUMBER and begun.count(number) == 1:
            raise AssertionError("a defect")
        await work(parts, stopped, report_ready)

    monkeypatch.setattr(worker_run, "work", note_begin)
    async with AsyncExitStack() as stack:
        wire, near = await stack.enter_async_context(open_wire(other))
        wire.is_away = is_away_at_first
        if is_added:
            await add_cell(home, near, has_other_identity=has_other_identity)
        rail_port = stack.enter_context(reserved_port())
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        settings = Settings(
            home=str(folder),
            base_url=url,
            database_url=home.service_url,
            rail_url=f"http://127.0.0.1:{rail_port}",
            sandbox_port=rail_port,
            secret_key=base64.urlsafe_b64encode(SECRET_KEY).decode(),
        )
        stop, tasks = asyncio.Event(), list[asyncio.Task[None]]()

        async def start(run: Run) -> None:
            is_ready = asyncio.Event()
            task = asyncio.ensure_future(run(stop, is_ready.set))
            tasks.append(cast("asyncio.Task[None]", task))
            async with asyncio.timeout(_READY_WITHIN_S):
                await asyncio.wait(
                    [task, waiting := asyncio.create_task(is_ready.wait())], return_when="FIRST_COMPLETED"
                )
            waiting.cancel()
            assert is_ready.is_set(), task

        contexts = {
            cell.HOME: await stack.enter_async_context(open_context(home, SystemClock())),
            NUMBER: await stack.enter_async_context(open_context(other, SystemClock(), cell=NUMBER)),
        }
        http = await stack.enter_async_context(httpx2.AsyncClient(base_url=url, timeout=60, trust_env=False))
        try:
            await start(lambda stopped, ready: sandbox.simulate(settings, stopped, ready))
            await start(lambda stopped, ready: worker.work(settings, stopped, ready))
            await start(lambda stopped, ready: api.serve(settings, [listener], stopped, ready))
            yield House(
                http=http,
                contexts=contexts,
                wire=wire,
                settings=settings,
                databases={cell.HOME: home, NUMBER: other},
                near=near,
                begun=begun,
            )
        finally:
            stop.set()
            await asyncio.gather(*tasks)
