"""The two clients. They differ in how they wait; every operation is in ``_resources.py`` and ``_sandbox.py``, once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from pixconnect_client._call import Call, query_of, read_anything
from pixconnect_client._core import Core
from pixconnect_client._operation import Async, Sync
from pixconnect_client._resources import (
    Account,
    Charges,
    Deliveries,
    Endpoints,
    Events,
    Identity,
    Infractions,
    Refunds,
    Transfers,
)
from pixconnect_client._sandbox import Sandbox
from pixconnect_client.download import AsyncDownload, Download, ask_for_statement
from pixconnect_client.enums import StatementFormat

# Loading httpx2 takes longer than all the rest, and a program that only verifies webhooks does not need it.
if TYPE_CHECKING:
    import httpx2

TIMEOUT_S = 30.0
"""How long the service may be silent; it answers sooner, whatever hangs."""
RETRIES = 4


class Client(Account[Sync]):
    """One client of the service; threads may share it.

    Reads, and what has an ``external_id`` (one is made where you give none), are sent again when no answer comes, on 429, 503
    and ``OUTCOME_UNKNOWN``; nothing else ever is.

    Args:
        base_url: Where the service is, such as ``https://pix.example``.
        auth_url: The identity service's address; by default that of the service.
        timeout_s: How long the service may be silent.
        retries: How often at most something is sent again.
        http: Your own httpx2 client, for proxies, certificates and the like; it is closed with this one.
    """

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        auth_url: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        http: httpx2.Client | None = None,
    ) -> None:
        from pixconnect_client._threads import ThreadTransport  # noqa: PLC0415  it loads httpx2

        core = Core(base_url, client_id, client_secret, auth_url=auth_url, timeout_s=timeout_s, retries=retries)
        self._transport = ThreadTransport(core, http)
        super().__init__(self._transport)
        self.charges = Charges[Sync](self._transport)
        self.transfers = Transfers[Sync](self._transport)
        self.refunds = Refunds[Sync](self._transport)
        self.infractions = Infractions[Sync](self._transport)
        self.endpoints = Endpoints[Sync](self._transport)
        self.deliveries = Deliveries[Sync](self._transport)
        self.events = Events[Sync](self._transport)
        self.identity = Identity[Sync](self._transport)
        self.sandbox = Sandbox[Sync](self._transport)

    def request(self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None) -> Any:  # noqa: ANN401  whatever the answer is
        """Ask for anything else.

        Returns:
            ``data`` of the answer; where it has no envelope the JSON as it is, or text.
        """
        return self._transport.send(ask_for_anything(method, path, query, body))

    def download_statement(
        self,
        initial_date: datetime,
        final_date: datetime,
        format: StatementFormat | str,  # noqa: A002  as the service calls it
        *,
        language: str | None = None,
    ) -> Download:
        """The statement as a file, of any length: iterate over its octets, in a ``with`` block."""
        return Download(self._transport.send(ask_for_statement(initial_date, final_date, format, language)))

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncClient(Account[Async]):
    """One client of the service; the tasks of one event loop may share it. In all else it is as ``Client``."""

    def __init__(
        self,
        base_url: str,
        client_id: str,
        client_secret: str,
        *,
        auth_url: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        from pixconnect_client._tasks import TaskTransport  # noqa: PLC0415  it loads httpx2

        core = Core(base_url, client_id, client_secret, auth_url=auth_url, timeout_s=timeout_s, retries=retries)
        self._transport = TaskTransport(core, http)
        super().__init__(self._transport)
        self.charges = Charges[Async](self._transport)
        self.transfers = Transfers[Async](self._transport)
        self.refunds = Refunds[Async](self._transport)
        self.infractions = Infractions[Async](self._transport)
        self.endpoints = Endpoints[Async](self._transport)
        self.deliveries = Deliveries[Async](self._transport)
        self.events = Events[Async](self._transport)
        self.identity = Identity[Async](self._transport)
        self.sandbox = Sandbox[Async](self._transport)

    async def request(
        self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None
    ) -> Any:  # noqa: ANN401  whatever the answer is
        """Ask for anything else; see ``Client.request``."""
        return await self._transport.send(ask_for_anything(method, path, query, body))

    async def download_statement(
        self,
        initial_date: datetime,
        final_date: datetime,
        format: StatementFormat | str,  # noqa: A002  as the service calls it
        *,
        language: str | None = None,
    ) -> AsyncDownload:
        """The statement as a file, of any length: iterate over its octets, in an ``async with`` block."""
        return AsyncDownload(await self._transport.send(ask_for_statement(initial_date, final_date, format, language)))

    async def close(self) -> None:
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def ask_for_anything(method: str, path: str, query: Mapping[str, object] | None, body: object) -> Call[Any]:
    if not path.startswith("/"):
        raise ValueError(f"path: must begin with a slash, not {path!r}")
    external_id = cast(dict[str, object], body).get("external_id") if isinstance(body, dict) else None
    return Call(
        method=method.upper(),
        path=path.replace("{", "{{").replace("}", "}}"),
        query=query_of(**(query or {})),
        body=cast(object, body),
        # What carries one cannot be done twice.
        external_id=external_id if isinstance(external_id, str) else None,
        read=read_anything,
    )
