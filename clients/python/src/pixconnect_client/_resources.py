"""The operations, grouped by resource. Each method only builds a request; see ``_operation.py``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime

from msgspec import structs

from pixconnect_client._call import (
    Call,
    body_of,
    choose_external_id,
    list_of,
    make_webhook_secret,
    query_of,
    read_bare,
    read_page_of_events,
    read_record,
    read_text,
)
from pixconnect_client._operation import Resource, SenderT, following, listing, operation
from pixconnect_client._reads import ask_identity, change_one, get_file, get_one, get_page
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
from pixconnect_client.errors import InvalidArgument
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
    NewEndpoint,
    PaidBy,
    Readiness,
    Receipt,
    Refund,
    RefundOutcome,
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
"""Shorter than the response timeout of most proxies."""


class Charges(Resource[SenderT]):
    """Create, read and list charges."""

    @operation
    def create(
        self,
        amount: int,
        key: str,
        *,
        payer: ChargePayer | None = None,
        external_id: str | None = None,
        base64: bool = False,
    ) -> Call[Charge]:
        """Create a charge.

        Args:
            amount: Cents.
            key: One of your own Pix keys, which receives the payment.
            payer: The person or company that is asked to pay.
            external_id: Your own id for it, and the idempotency key; generated if left out.
            base64: Whether to return the QR code as a PNG too.
        """
        external_id = choose_external_id(external_id)
        return Call(
            method="POST",
            path="/v1/connect/charge",
            query=query_of(base64=base64 or None),
            body=body_of(
                amount=amount,
                key=key,
                payer=payer,
                external_id=external_id,
            ),
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
        """Create a charge with a due date. The amount to pay depends on the day of payment.

        Args:
            amount: Cents, before fine, interest, rebate and discount.
            key: One of your own Pix keys, which receives the payment.
            due_on: The due date: the last day without fine and interest.
            payer: The person or company that is asked to pay.
            valid_days: Calendar days after the due date on which it can still be paid; 30 if left out.
            fine: Added once, after the due date.
            interest: Added for each day after the due date.
            rebate: Subtracted on every day.
            discount: Subtracted if it is paid early.
            external_id: Your own id of 26 to 35 letters and digits, also used as the txid; generated if left out.
            base64: Whether to return the QR code as a PNG too.
        """
        external_id = choose_external_id(external_id)
        if isinstance(due_on, datetime):
            raise InvalidArgument("due_on: must be a date in Sao Paulo, not a datetime")
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
        """Get the payment of a charge. Raises ``NotFound`` if it is not paid."""
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
        """List the items of one status; PENDING without ``status``."""
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
        """Get the signed JWS that a payer's bank fetches after reading the QR code."""
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
        """Get the keys that verify the result of ``location``."""
        return Call(method="GET", path="/v1/qr/jwks.json", is_authorized=False, read=read_bare(KeySet), record=KeySet)


class Transfers(Resource[SenderT]):
    """Send Pix, and read what you sent and received."""

    @operation
    def create_by_key(
        self,
        amount: int,
        key: str,
        key_type: KeyType | str,
        *,
        external_id: str | None = None,
    ) -> Call[Transfer]:
        """Start a transfer to a Pix key. Its status is PROCESSING at first; an event or ``get`` shows the outcome."""
        return _start_transfer(
            path="/v1/connect/transfer/key",
            amount=amount,
            key=key,
            key_type=key_type,
            external_id=external_id,
        )

    @operation
    def create_by_account(
        self,
        amount: int,
        credit_party: TransferParty,
        *,
        external_id: str | None = None,
    ) -> Call[Transfer]:
        """Start a transfer to an account."""
        return _start_transfer(
            path="/v1/connect/transfer/manual",
            amount=amount,
            credit_party=credit_party,
            external_id=external_id,
        )

    @operation
    def create_by_qr_code(
        self,
        amount: int,
        emv: str,
        *,
        external_id: str | None = None,
    ) -> Call[Transfer]:
        """Start a transfer to the payee of a QR code."""
        return _start_transfer(
            path="/v1/connect/transfer/qrcode",
            amount=amount,
            emv=emv,
            external_id=external_id,
        )

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
        """Get the final status and its reason."""
        return get_one("/v1/connect/transfer/id/{id}/outcome", TransferOutcome, id=id)

    @operation
    def parties(self, id: int) -> Call[TransferParties]:  # noqa: A002  as the service calls it
        """Get what the service has about payer and payee, and which party assigned the end-to-end id."""
        return get_one("/v1/connect/transfer/id/{id}/parties", TransferParties, id=id)

    @operation
    def receipt(self, id: int) -> Call[Receipt]:  # noqa: A002  as the service calls it
        """Get the receipt of a settled transfer."""
        return get_one("/v1/connect/transfer/id/{id}/receipt", Receipt, id=id)

    @operation
    def receipt_file(self, id: int) -> Call[bytes]:  # noqa: A002  as the service calls it
        """Get the receipt as a PDF page in Portuguese."""
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
        """List the items of one status; CONFIRMED without ``status``. ``search`` has those of every status."""
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
        """Search transfers of every status and both directions by any of their ids."""
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
    """Return received Pix."""

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
        """Return a received Pix in full or in part.

        Args:
            end_to_end_id: The end-to-end id of the received Pix.
            amount: Cents.
            external_id: Your own id for it, and the idempotency key; generated if left out.
            reason: MD06 (requested by the payer) if left out.
            description: Text shown to the payer.
        """
        external_id = choose_external_id(external_id)
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
    def outcome(self, id: int) -> Call[RefundOutcome]:  # noqa: A002  as the service calls it
        """Get the final status and its reason."""
        return get_one("/v1/connect/refund/id/{id}/outcome", RefundOutcome, id=id)

    @operation
    def receipt(self, id: int) -> Call[Receipt]:  # noqa: A002  as the service calls it
        """Get the receipt of a settled refund."""
        return get_one("/v1/connect/refund/id/{id}/receipt", Receipt, id=id)

    @operation
    def receipt_file(self, id: int) -> Call[bytes]:  # noqa: A002  as the service calls it
        """Get the receipt as a PDF page in Portuguese."""
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
        """List the items of one status; all without ``status``."""
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
    """Contested Pix (MED) and your answers."""

    @operation
    def get(self, id: int) -> Call[Infraction]:  # noqa: A002  as the service calls it
        return get_one("/v1/connect/infraction/id/{id}", Infraction, id=id)

    @operation
    def defend(self, id: int, text: str) -> Call[Infraction]:  # noqa: A002  as the service calls it
        """Answer an infraction, once and before its deadline. Repeating the same text has no further effect."""
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
    """Webhook endpoints."""

    @operation
    def create(self, url: str, event_types: Sequence[str], *, secret: str | None = None) -> Call[NewEndpoint]:
        """Create a webhook endpoint. The result has the ``secret`` that signs its deliveries: store it.

        Args:
            url: A public https address.
            event_types: The subscribed event types.
            secret: The secret; generated by the client if missing. The API never returns it.
        """
        chosen, read = make_webhook_secret() if secret is None else secret, read_record(Endpoint)
        return Call(
            method="POST",
            path="/v1/webhook/endpoints",
            body=body_of(url=url, secret=chosen, event_types=list_of(event_types)),
            read=lambda answer: NewEndpoint(**structs.asdict(read(answer)), secret=chosen),
            record=Endpoint,
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
        """Change the given fields. ``status`` is ``active`` or ``inactive``. The old secret also signs for one more day."""
        types = None if event_types is None else list_of(event_types)
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
        """Resend all events of a period."""
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
    """Webhook deliveries."""

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
    """Events and the event feed."""

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
        """Get a page of the feed, starting at a cursor.

        Args:
            cursor: The cursor of the last page, or of the last event that you processed.
            start: Where to start without a cursor: ``oldest`` or ``now``.
            page_size: Events per page.
            wait_s: Seconds that the service waits for an event if there is none; at most 30.
            event_types: Only events of these types.
            resource: Only events of this resource, such as ``charge``.
            id: Only events of the resource with this id: the service's, yours, or the network's.
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
        """Iterate over events endlessly, with the arguments of ``feed``. After an error, continue from the last ``cursor``."""
        return _read_feed(cursor, wait_s, event_types, start=start, page_size=page_size, resource=resource, id=id)


class Identity(Resource[SenderT]):
    """Public keys of the service, and OAuth metadata for other tools."""

    @operation
    def key_set(self) -> Call[KeySet]:
        """Get the keys for ``verify_webhook_jws``."""
        return ask_identity("/.well-known/jwks.json", KeySet)

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
        return ask_identity("/.well-known/oauth-authorization-server", ServerMetadata)


class Account(Resource[SenderT]):
    """Operations on the client object itself."""

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
        """List the transactions of the account."""
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
    def statement(self, initial_date: datetime, final_date: datetime, *, language: str | None = None) -> Call[Statement]:
        """Get the account statement with balances, in ``en`` or ``pt``. For files use ``download_statement``."""
        return Call(
            method="GET",
            path="/v1/connect/ledger/statement",
            query=query_of(initial_date=initial_date, final_date=final_date, language=language),
            read=read_record(Statement),
            record=Statement,
        )

    @operation
    def health(self) -> Call[Health]:
        return Call(method="GET", path="/v1/connect/health", is_authorized=False, read=read_record(Health), record=Health)

    @operation
    def liveness(self) -> Call[Liveness]:
        return Call(method="GET", path="/livez", is_authorized=False, read=read_bare(Liveness), record=Liveness)

    @operation
    def readiness(self) -> Call[Readiness]:
        """Get the readiness of the process that answers, and the failed checks if it is not ready."""
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
        query=query_of(cursor=cursor, wait_s=wait_s or None, event_types=",".join(list_of(event_types)) or None, **query),
        extra_timeout_s=wait_s,
        read=read_record(EventFeed),
        record=EventFeed,
    )


def _start_transfer(*, path: str, external_id: str | None, **fields: object) -> Call[Transfer]:
    external_id = choose_external_id(external_id)
    return Call(
        method="POST",
        path=path,
        body=body_of(**fields, external_id=external_id),
        external_id=external_id,
        read=read_record(Transfer),
        record=Transfer,
    )
