"""The synchronous and the asyncio client. Both share the operations in ``_resources.py`` and ``_sandbox.py``."""

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
from pixconnect_client.errors import InvalidArgument

# Importing httpx2 takes longer than the rest, and a program that only verifies webhooks does not need it.
if TYPE_CHECKING:
    import httpx2

TIMEOUT_S = 30.0
"""Default read timeout. The service itself responds earlier, even if a part of it hangs."""
RETRIES = 4


class Client(Account[Sync]):
    """A thread-safe client of the service.

    On a missing response, 429, 503 or ``OUTCOME_UNKNOWN`` it retries reads, and changes with an ``external_id`` (generated if
    you pass none). It never retries other requests.

    Args:
        base_url: The service's URL, such as ``https://pix.example``.
        auth_url: The identity service's URL; by default the same as ``base_url``.
        timeout_s: Read timeout in seconds.
        retries: Maximum number of retries.
        http: Your own httpx2 client, for example with a proxy or certificates. It is closed with this client.

    Attributes:
        charges, transfers, refunds, infractions: ``help(client.charges)`` describes the operations of each.
        endpoints, deliveries, events: Webhooks and the feed of events.
        identity, sandbox: Keys of the service, and the controls of its sandbox.
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

    def request(self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None) -> Any:  # noqa: ANN401  any answer
        """Send a request for which there is no method.

        Returns:
            ``data`` of the response; without an envelope the decoded JSON, or text.
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
        """Download the statement as a file of any length: use a ``with`` block and iterate over its bytes."""
        return Download(self._transport.send(ask_for_statement(initial_date, final_date, format, language)))

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class AsyncClient(Account[Async]):
    """A client for asyncio, shared by the tasks of one event loop. Otherwise the same as ``Client``."""

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

    async def request(self, method: str, path: str, *, query: Mapping[str, object] | None = None, body: object = None) -> Any:  # noqa: ANN401  any answer
        """Send a request for which there is no method; see ``Client.request``."""
        return await self._transport.send(ask_for_anything(method, path, query, body))

    async def download_statement(
        self,
        initial_date: datetime,
        final_date: datetime,
        format: StatementFormat | str,  # noqa: A002  as the service calls it
        *,
        language: str | None = None,
    ) -> AsyncDownload:
        """Download the statement as a file of any length: ``async with await client.download_statement(...) as file``."""
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
        raise InvalidArgument(f"path: must begin with a slash, not {path!r}")
    external_id = cast(dict[str, object], body).get("external_id") if isinstance(body, dict) else None
    return Call(
        method=method.upper(),
        path=path.replace("{", "{{").replace("}", "}}"),
        query=query_of(**(query or {})),
        body=cast(object, body),
        # A request with an external id can be retried safely.
        external_id=external_id if isinstance(external_id, str) else None,
        read=read_anything,
    )
