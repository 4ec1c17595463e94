"""The operations, by what they are about. Each only says what to ask for; see ``_operation.py``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from pixconnect_client._call import (
    Call,
    body_of,
    make_external_id,
    query_of,
    read_bare,
    read_page_of_events,
    read_record,
    read_text,
)
from pixconnect_client._operation import Resource, SenderT, following, listing, operation
from pixconnect_client._reads import change_one, get_file, get_one, get_page, tell_identity
from pixconnect_client.enums import (
    ChargeStatus,
    DeliveryStatus,
    Direction,
    InfractionStatus,
    KeyType,
    RefundReason,
    RefundStatus,
    ResourceKind,
    TransferStatus,
)
from pixconnect_client.events import Event
from pixconnect_client.feed import EventFeed
from pixconnect_client.lists import Page
from pixconnect_client.records import (
    Balance,
    Charge,
    ChargeDiscount,
    ChargeFine,
    ChargeInterest,
    ChargePayer,
    ChargeRebate,
    CurrentKey,
    Delivery,
    Endpoint,
    Health,
    Infraction,
    KeySet,
    Liveness,
    PaidBy,
    Readiness,
    Receipt,
    Refund,
    Replayed,
    ServerMetadata,
    Statement,
    Transaction,
    Transfer,
    TransferOutcome,
    TransferParties,
    TransferParty,
)

FOLLOW_WAIT_S = 25
"""Below what proxies usually allow an answer to take."""


class Charges(Resource[SenderT]):
    """Ask to be paid."""

    @operation
    def create(
        self,
        amount: int,
        key: str,
        *,
        external_id: str | None = None,
        payer: ChargePayer | None = None,
        base64: bool = False,
    ) -> Call[Charge]:
        """Make a charge.

        Args:
            amount: Cents.
            key: One of your own Pix keys: it receives the payment.
            external_id: Your own name for it; made if left out.
            payer: The person or company that shall pay.
            base64: Whether to draw the QR code as a PNG, too.
        """
        external_id = external_id or make_external_id()
        return Call(
            method="POST",
            path="/v1/connect/charge",
            query=query_of(base64=base64 or None),
            body=body_of(amount=amount, key=key, external_id=external_id, payer=payer),
            external_id=external_id,
            read=read_record(Charge),
            record=Charge,
        )

    @operation
    def create_due(
        self,
        amount: int,
        key: str,
        due_on: date,
        payer: ChargePayer,
        *,
        valid_days: int | None = None,
        fine: ChargeFine | None = None,
        interest: ChargeInterest | None = None,
        rebate: ChargeRebate | None = None,
        discount: ChargeDiscount | None = None,
        external_id: str | None = None,
        base64: bool = False,
    ) -> Call[Charge]:
        """Make a charge with a due date, which asks for another amount on each day.

        Args:
            amount: Cents: what it asks for without what is added and taken off.
            key: One of your own Pix keys: it receives the payment.
            due_on: The last day on which it is not late.
            payer: The person or company that shall pay.
            valid_days: Calendar days after the due date on which it may still be paid; 30 if left out.
            fine: Added once it is late.
            interest: Added for each day that it is late.
            rebate: Taken off on every day.
            discount: Taken off when it is paid early.
            external_id: Your own name for it, of 26 to 35 letters and digits, which is its txid too; made if left out.
            base64: Whether to draw the QR code as a PNG, too.
        """
        external_id = external_id or make_external_id()
        return Call(
            method="POST",
            path="/v1/connect/charge/due",
            query=query_of(base64=base64 or None),
            body=body_of(
                amount=amount,
                key=key,
                due_on=due_on,
                payer=payer,
                valid_days=valid_days,
                fine=fine,
                interest=interest,
                rebate=rebate,
                discount=discount,
                external_id=external_id,
            ),
            external_id=external_id,
            read=read_record(Charge),
            record=Charge,
        )

    @operation
    def get(self, id: int, *, base64: bool = False) -> Call[Charge]:  # noqa: A002  as the service calls it
        return _get_charge("/v1/connect/charge/{id}", "id", id, base64=base64)

    @operation
    def get_by_external_id(self, external_id: str, *, base64: bool = False) -> Call[Charge]:
        return _get_charge("/v1/connect/charge/external-id/{externalId}", "externalId", external_id, base64=base64)

    @operation
    def get_by_txid(self, txid: str, *, base64: bool = False) -> Call[Charge]:
        return _get_charge("/v1/connect/charge/txid/{txid}", "txid", txid, base64=base64)

    @operation
    def payment(self, id: int) -> Call[PaidBy]:  # noqa: A002  as the service calls it
        """By what it was paid; ``NotFound`` if it is not paid."""
        return get_one("/v1/connect/charge/id/{id}/payment", PaidBy, id=id)

    @listing
    def list(
        self,
        *,
        status: ChargeStatus | str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Charge]]:
        return get_page(
            "/v1/connect/charge/list",
            Charge,
            status=status,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )

    @operation
    def location(self, txid: str) -> Call[str]:
        """What the QR code leads a payer's bank to: a signed JWS."""
        return Call(
            method="GET",
            path="/v1/qr/{txid}",
            parameters={"txid": txid},
            is_authorized=False,
            read=read_text,
            record=str,
        )

    @operation
    def location_keys(self) -> Call[KeySet]:
        """The keys that verify ``location``."""
        return Call(method="GET", path="/v1/qr/jwks.json", is_authorized=False, read=read_bare(KeySet), record=KeySet)


class Transfers(Resource[SenderT]):
    """Send Pix, and see what you sent and received."""

    @operation
    def create_by_key(
        self, amount: int, key: str, key_type: KeyType | str, *, external_id: str | None = None
    ) -> Call[Transfer]:
        """Start a transfer to a Pix key. It is PROCESSING at first; an event, or ``get``, says how it ended."""
        return _start_transfer("/v1/connect/transfer/key", external_id, amount=amount, key=key, key_type=key_type)

    @operation
    def create_by_account(
        self, amount: int, credit_party: TransferParty, *, external_id: str | None = None
    ) -> Call[Transfer]:
        """Start a transfer to an account."""
        return _start_transfer("/v1/connect/transfer/manual", external_id, amount=amount, credit_party=credit_party)

    @operation
    def create_by_qr_code(self, amount: int, emv: str, *, external_id: str | None = None) -> Call[Transfer]:
        """Start a transfer to the payee of a QR code."""
        return _start_transfer("/v1/connect/transfer/qrcode", external_id, amount=amount, emv=emv)

    @operation
    def get(self, id: int) -> Call[Transfer]:  # noqa: A002  as the service calls it
        return get_one("/v1/connect/transfer/id/{id}", Transfer, id=id)

    @operation
    def get_by_external_id(self, external_id: str) -> Call[Transfer]:
        return get_one("/v1/connect/transfer/external-id/{externalId}", Transfer, externalId=external_id)

    @operation
    def get_by_end_to_end_id(self, end_to_end_id: str) -> Call[Transfer]:
        return get_one("/v1/connect/transfer/end-to-end-id/{endToEndId}", Transfer, endToEndId=end_to_end_id)

    @operation
    def outcome(self, id: int) -> Call[TransferOutcome]:  # noqa: A002  as the service calls it
        """How it ended, and why."""
        return get_one("/v1/connect/transfer/id/{id}/outcome", TransferOutcome, id=id)

    @operation
    def parties(self, id: int) -> Call[TransferParties]:  # noqa: A002  as the service calls it
        """What is known of both its sides, and whose its name is."""
        return get_one("/v1/connect/transfer/id/{id}/parties", TransferParties, id=id)

    @operation
    def receipt(self, id: int) -> Call[Receipt]:  # noqa: A002  as the service calls it
        """Its receipt, once it has settled."""
        return get_one("/v1/connect/transfer/id/{id}/receipt", Receipt, id=id)

    @operation
    def receipt_file(self, id: int) -> Call[bytes]:  # noqa: A002  as the service calls it
        """The same as a page of PDF, in Portuguese."""
        return get_file("/v1/connect/transfer/id/{id}/receipt.pdf", id=id)

    @listing
    def list(
        self,
        *,
        status: TransferStatus | str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Transfer]]:
        return get_page(
            "/v1/connect/transfer/list",
            Transfer,
            status=status,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )

    @listing
    def search(
        self,
        *,
        status: TransferStatus | str | None = None,
        direction: Direction | str | None = None,
        external_id: str | None = None,
        end_to_end_id: str | None = None,
        key: str | None = None,
        txid: str | None = None,
        amount: int | None = None,
        tax_id: str | None = None,
        end_to_end_id_part: str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Transfer]]:
        """List transfers of every status, both directions, by whatever names them."""
        return get_page(
            "/v1/connect/transfer/search",
            Transfer,
            status=status,
            direction=direction,
            external_id=external_id,
            end_to_end_id=end_to_end_id,
            key=key,
            txid=txid,
            amount=amount,
            tax_id=tax_id,
            end_to_end_id_part=end_to_end_id_part,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )


class Refunds(Resource[SenderT]):
    """Give back what you received."""

    @operation
    def create(
        self,
        end_to_end_id: str,
        amount: int,
        *,
        external_id: str | None = None,
        reason: RefundReason | str | None = None,
        description: str | None = None,
    ) -> Call[Refund]:
        """Return a received Pix, wholly or in part.

        Args:
            end_to_end_id: Names the Pix that you received.
            amount: Cents.
            external_id: Your own name for it; made if left out.
            reason: MD06, that the payer asked for it, if left out.
            description: For the payer to read.
        """
        external_id = external_id or make_external_id()
        return Call(
            method="POST",
            path="/v1/connect/refund",
            body=body_of(
                end_to_end_id=end_to_end_id,
                amount=amount,
                external_id=external_id,
                reason=reason,
                description=description,
            ),
            external_id=external_id,
            read=read_record(Refund),
            record=Refund,
        )

    @operation
    def get(self, id: int) -> Call[Refund]:  # noqa: A002  as the service calls it
        return get_one("/v1/connect/refund/id/{id}", Refund, id=id)

    @operation
    def receipt(self, id: int) -> Call[Receipt]:  # noqa: A002  as the service calls it
        """Its receipt, once it has been returned."""
        return get_one("/v1/connect/refund/id/{id}/receipt", Receipt, id=id)

    @operation
    def receipt_file(self, id: int) -> Call[bytes]:  # noqa: A002  as the service calls it
        """The same as a page of PDF, in Portuguese."""
        return get_file("/v1/connect/refund/id/{id}/receipt.pdf", id=id)

    @operation
    def get_by_external_id(self, external_id: str) -> Call[Refund]:
        return get_one("/v1/connect/refund/external-id/{externalId}", Refund, externalId=external_id)

    @operation
    def get_by_return_identification(self, return_identification: str) -> Call[Refund]:
        return get_one(
            "/v1/connect/refund/return-identification/{returnIdentification}",
            Refund,
            returnIdentification=return_identification,
        )

    @listing
    def list(
        self,
        *,
        status: RefundStatus | str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Refund]]:
        return get_page(
            "/v1/connect/refund/list",
            Refund,
            status=status,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )


class Infractions(Resource[SenderT]):
    """Pix that somebody contests, and what you answer."""

    @operation
    def get(self, id: int) -> Call[Infraction]:  # noqa: A002  as the service calls it
        return get_one("/v1/connect/infraction/id/{id}", Infraction, id=id)

    @operation
    def defend(self, id: int, text: str) -> Call[Infraction]:  # noqa: A002  as the service calls it
        """Answer it, once and in time; the same words again are no second answer."""
        return change_one("POST", "/v1/connect/infraction/id/{id}/defence", Infraction, body=body_of(text=text), id=id)

    @listing
    def list(
        self,
        *,
        status: InfractionStatus | str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Infraction]]:
        return get_page(
            "/v1/connect/infraction/list",
            Infraction,
            status=status,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )


class Endpoints(Resource[SenderT]):
    """Where events are posted to."""

    @operation
    def create(self, url: str, secret: str, event_types: Sequence[str]) -> Call[Endpoint]:
        """Have events posted to an address. The secret signs them, and is never shown again."""
        return change_one(
            "POST", "/v1/webhook/endpoints", Endpoint, body=body_of(url=url, secret=secret, event_types=[*event_types])
        )

    @operation
    def get(self, id: int) -> Call[Endpoint]:  # noqa: A002  as the service calls it
        return get_one("/v1/webhook/endpoints/{id}", Endpoint, id=id)

    @operation
    def change(
        self,
        id: int,  # noqa: A002  as the service calls it
        *,
        url: str | None = None,
        secret: str | None = None,
        event_types: Sequence[str] | None = None,
        status: str | None = None,
    ) -> Call[Endpoint]:
        """Change what is given. ``status`` is ``active`` or ``inactive``; for a day a new secret signs beside the old one."""
        types = None if event_types is None else [*event_types]
        body = body_of(url=url, secret=secret, event_types=types, status=status)
        return change_one("PATCH", "/v1/webhook/endpoints/{id}", Endpoint, id, body)

    @operation
    def delete(self, id: int) -> Call[Endpoint]:  # noqa: A002  as the service calls it
        return change_one("DELETE", "/v1/webhook/endpoints/{id}", Endpoint, id)

    @operation
    def replay(
        self,
        id: int,  # noqa: A002  as the service calls it
        *,
        initial_date: datetime,
        final_date: datetime,
    ) -> Call[Replayed]:
        """Send all events of that time again."""
        body = body_of(initial_date=initial_date, final_date=final_date)
        return change_one("POST", "/v1/webhook/endpoints/{id}/replay", Replayed, id, body)

    @listing
    def list(
        self,
        *,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Endpoint]]:
        return get_page(
            "/v1/webhook/endpoints",
            Endpoint,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )


class Deliveries(Resource[SenderT]):
    """Events on their way to your endpoints."""

    @operation
    def get(self, id: int) -> Call[Delivery]:  # noqa: A002  as the service calls it
        return get_one("/v1/webhook/deliveries/{id}", Delivery, id=id)

    @operation
    def redeliver(self, id: int) -> Call[Delivery]:  # noqa: A002  as the service calls it
        return change_one("POST", "/v1/webhook/deliveries/{id}/redeliver", Delivery, id)

    @listing
    def list(
        self,
        endpoint_id: int,
        *,
        status: DeliveryStatus | str | None = None,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Delivery]]:
        return get_page(
            "/v1/webhook/endpoints/{id}/deliveries",
            Delivery,
            endpoint_id,
            status=status,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )


class Events(Resource[SenderT]):
    """What happened."""

    @listing
    def list(
        self,
        *,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Event]]:
        query = query_of(initial_date=initial_date, final_date=final_date, page=page, page_size=page_size, after=after)
        return Call(method="GET", path="/v1/webhook/events", query=query, read=read_page_of_events, record=Event)

    @operation
    def feed(
        self,
        cursor: str | None = None,
        *,
        start: str | None = None,
        page_size: int | None = None,
        wait_s: int = 0,
        event_types: Sequence[str] = (),
        resource: ResourceKind | str | None = None,
        id: str | None = None,  # noqa: A002  as the service calls it
    ) -> Call[EventFeed]:
        """A part of the feed, from where a cursor leads.

        Args:
            cursor: That of the last part, or of the last event that you have dealt with.
            start: Where to begin without a cursor: ``oldest``, or ``now``.
            page_size: Events a part.
            wait_s: How long the service waits for an event if there is none; 30 at most.
            event_types: Only events of these names.
            resource: Only events of charges, of transfers, or of refunds.
            id: Only events of what has this id: the service's, yours, or the network's.
        """
        return _read_feed(cursor, wait_s, event_types, start=start, page_size=page_size, resource=resource, id=id)

    @following
    def follow(
        self,
        cursor: str | None = None,
        *,
        start: str | None = None,
        page_size: int | None = None,
        wait_s: int = FOLLOW_WAIT_S,
        event_types: Sequence[str] = (),
        resource: ResourceKind | str | None = None,
        id: str | None = None,  # noqa: A002  as the service calls it
    ) -> Call[EventFeed]:
        """Every event as it comes, without an end; takes what ``feed`` takes. After an error go on from the last ``cursor``."""
        return _read_feed(cursor, wait_s, event_types, start=start, page_size=page_size, resource=resource, id=id)


class Identity(Resource[SenderT]):
    """What verifies the service's signatures, and how to log in with other tools."""

    @operation
    def key_set(self) -> Call[KeySet]:
        """The keys that ``verify_webhook_jws`` takes."""
        return tell_identity("/.well-known/jwks.json", KeySet)

    @operation
    def current_key(self) -> Call[CurrentKey]:
        return Call(
            method="GET",
            path="/v1/iam/public-key",
            is_authorized=False,
            is_identity=True,
            read=read_record(CurrentKey),
            record=CurrentKey,
        )

    @operation
    def metadata(self) -> Call[ServerMetadata]:
        return tell_identity("/.well-known/oauth-authorization-server", ServerMetadata)


class Account(Resource[SenderT]):
    """The operations of a client itself."""

    @operation
    def balance(self) -> Call[Balance]:
        return get_one("/v1/connect/ledger/balance", Balance)

    @listing
    def transactions(
        self,
        *,
        initial_date: datetime | None = None,
        final_date: datetime | None = None,
        page: int | None = None,
        page_size: int | None = None,
        after: str | None = None,
    ) -> Call[Page[Transaction]]:
        """List the changes of the account's funds."""
        return get_page(
            "/v1/connect/ledger/list",
            Transaction,
            initial_date=initial_date,
            final_date=final_date,
            page=page,
            page_size=page_size,
            after=after,
        )

    @operation
    def statement(
        self, initial_date: datetime, final_date: datetime, *, language: str | None = None
    ) -> Call[Statement]:
        """The account's history with balances, described in ``en`` or ``pt``; ``download_statement`` is for files."""
        return Call(
            method="GET",
            path="/v1/connect/ledger/statement",
            query=query_of(initial_date=initial_date, final_date=final_date, language=language),
            read=read_record(Statement),
            record=Statement,
        )

    @operation
    def health(self) -> Call[Health]:
        return Call(
            method="GET", path="/v1/connect/health", is_authorized=False, read=read_record(Health), record=Health
        )

    @operation
    def liveness(self) -> Call[Liveness]:
        return Call(method="GET", path="/livez", is_authorized=False, read=read_bare(Liveness), record=Liveness)

    @operation
    def readiness(self) -> Call[Readiness]:
        """Whether the process that answers should get requests, and if not, why."""
        return Call(
            method="GET",
            path="/readyz",
            is_authorized=False,
            also_reads=(503,),
            read=read_bare(Readiness),
            record=Readiness,
        )


def _get_charge(path: str, name: str, value: str | int, *, base64: bool) -> Call[Charge]:
    return Call(
        method="GET",
        path=path,
        parameters={name: value},
        query=query_of(base64=base64 or None),
        read=read_record(Charge),
        record=Charge,
    )


def _read_feed(cursor: str | None, wait_s: int, event_types: Sequence[str], **query: object) -> Call[EventFeed]:
    return Call(
        method="GET",
        path="/v1/webhook/feed",
        query=query_of(cursor=cursor, wait_s=wait_s or None, event_types=",".join(event_types) or None, **query),
        extra_timeout_s=wait_s,
        read=read_record(EventFeed),
        record=EventFeed,
    )


def _start_transfer(path: str, external_id: str | None, **fields: object) -> Call[Transfer]:
    external_id = external_id or make_external_id()
    return Call(
        method="POST",
        path=path,
        body=body_of(**fields, external_id=external_id),
        external_id=external_id,
        read=read_record(Transfer),
        record=Transfer,
    )
