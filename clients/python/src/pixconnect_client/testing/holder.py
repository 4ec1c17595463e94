"""The holder of one test: a client, a Pix key and an inbox, separate from all other tests."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pixconnect_client import Charge, Client, Deposit, EventName, Payment
from pixconnect_client.errors import Forbidden, PixConnectError
from pixconnect_client.sandbox_records import SandboxHolder
from pixconnect_client.testing.inbox import Inbox, describe

_TIMELINE_MAX = 100
_BEFORE_ALL = datetime(2000, 1, 1, tzinfo=UTC)


class Pix:
    """The account of a test, with simulated payers at other institutions."""

    def __init__(self, client: Client, made: SandboxHolder, *, base_url: str, auth_url: str) -> None:
        self.client = client
        """A client with the holder's credentials."""
        self.base_url = base_url
        self.auth_url = auth_url
        self.holder_id = made.holder_id
        self.client_id = made.client_id
        self.client_secret = made.client_secret
        self.key = made.key
        """An EVP key of the holder."""
        self._inbox: Inbox | None = None
        self._endpoint_id = 0

    @property
    def inbox(self) -> Inbox:
        """Receives every event of the holder, including events from before its first use."""
        if self._inbox is None:
            inbox = Inbox()
            try:
                self._have_told(inbox)
            except Forbidden as error:
                inbox.close()
                error.add_note("pix.inbox needs webhook.read and webhook.write among the scopes of @pytest.mark.pix")
                raise
            self._inbox = inbox
        return self._inbox

    def _have_told(self, inbox: Inbox) -> None:
        self._endpoint_id = self.client.endpoints.create(inbox.url, [str(name) for name in EventName], secret=inbox.secret).id
        earlier = next(self.client.events.list(page_size=1).pages()).items
        if earlier:
            self.client.endpoints.replay(self._endpoint_id, initial_date=_BEFORE_ALL, final_date=earlier[0].create_timestamp)

    def pay(self, charge: Charge | str, amount: int | None = None) -> Payment:
        """Pay a charge, or the text of a QR code, from another institution. The default amount is that of the charge."""
        return self.client.sandbox.pay(charge if isinstance(charge, str) else charge.emvqrcps, amount=amount)

    def receive(self, amount: int) -> Payment:
        """Pay to the holder's key from another institution, without a charge."""
        return self.client.sandbox.receive(self.key, amount)

    def deposit(self, amount: int) -> Deposit:
        """Deposit money on the holder's account."""
        return self.client.sandbox.deposit(amount)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for a program that acts as this holder."""
        return {
            "PIXCONNECT_API_URL": self.base_url,
            "PIXCONNECT_AUTH_URL": self.auth_url,
            "PIXCONNECT_CLIENT_ID": self.client_id,
            "PIXCONNECT_CLIENT_SECRET": self.client_secret,
        }

    def describe_timeline(self) -> str:
        """A readable list of the holder's events, oldest first."""
        try:
            page = next(self.client.events.list(page_size=_TIMELINE_MAX).pages())
            balance = self.client.balance()
        except Forbidden:
            return "it is shown where webhook.read and ledger.read are among the scopes of @pytest.mark.pix"
        except PixConnectError as error:
            return f"it cannot be read: {error}"
        details = self._read_details()
        lines = [describe(event, details.get(event.id)) for event in reversed(page.items)] or ["no event"]
        if page.pagination.has_next:
            lines.insert(0, f"(the last {_TIMELINE_MAX} of {page.pagination.total_items} events)")
        lines.append(f"balance: {balance.available_funds} cents available of {balance.current_funds}")
        if self._inbox is not None:
            came = [f"{one.event.name} ({one.answered}, attempt {one.attempt})" for one in self._inbox.received]
            lines.append(f"inbox: {', '.join([*came, *self._inbox.refused]) or 'nothing came'}")
        return "\n".join(lines)

    def _read_details(self) -> Mapping[int, Mapping[str, Any]]:
        """Details from the feed, such as payer and failure reason. The feed lags slightly."""
        try:
            page = self.client.request("GET", "/v1/webhook/feed", query={"page_size": _TIMELINE_MAX * 10})
        except PixConnectError:
            return {}
        return {event["id"]: event["detail"] for event in page["events"]}

    def close(self) -> None:
        """Stop deliveries to the inbox."""
        try:
            if self._endpoint_id:
                self.client.endpoints.delete(self._endpoint_id)
        finally:
            if self._inbox is not None:
                self._inbox.close()
            self.client.close()
