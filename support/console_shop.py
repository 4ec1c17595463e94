"""A holder with resources of every kind for tests of pages, made once over the API."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from support.listener import open_hook
from support.waiting import wait_until

# 15 attempts take three days, or up to a fifth more; an endpoint that fails for five days is disabled.
_GIVEN_UP_AFTER_S = 4 * 86_400


class Shop(Struct, frozen=True, kw_only=True):
    holder: Any
    other: Any  # another holder, with one charge
    other_charge: Any
    failing: Any  # an endpoint for created charges that refuses everything
    failed_id: int  # a delivery to that endpoint that was given up
    paid: Any  # a paid charge whose webhook went to another endpoint
    retried: Any  # a charge whose webhook failed and will be sent again
    sent: Any  # a settled transfer that was returned
    refused: Any


@contextmanager
def open_shop(played: Any) -> Iterator[Shop]:
    with open_hook(lambda _: (204, b"")) as url:
        yield _make(played, url)


def _make(played: Any, url: str) -> Shop:
    own, other = played.open_holder(), played.open_holder()

    def ask(method: str, path: str, body: object = None) -> Any:
        return played.call(own, method, path, body)

    failing, good = (
        ask("POST", "/v1/webhook/endpoints", dict(url=where, secret="s" * 32, event_types=[event_type]))
        for where, event_type in ((f"{played.base_url}/livez", "qrcode.pending"), (url, "qrcode.approved"))
    )

    def deliveries(endpoint: Any) -> list[Any]:
        return ask("GET", f"/v1/webhook/endpoints/{endpoint['id']}/deliveries")

    played.charge(own, 700, external_id="order-1")
    wait_until(lambda: [len(each["attempts"]) > 0 for each in deliveries(failing)] == [True])
    ask("POST", "/sandbox/v1/clock", dict(advance_s=_GIVEN_UP_AFTER_S))
    [given_up] = deliveries(failing)
    assert given_up["status"] == "failed", given_up
    paid = played.paid_charge(own, 12345, external_id="order-1042")
    wait_until(lambda: [each["status"] for each in deliveries(good)] == ["delivered"])
    retried = played.charge(own, 990, external_id="order-1043")
    wait_until(lambda: all(each["attempts"] for each in deliveries(failing)))
    sent, refused = (
        ask("POST", "/v1/connect/transfer/key", dict(amount=100, key=f"{who}@sandbox.pix.example", key_type="EMAIL"))
        for who in ("settle", "reject-ac03")
    )
    for transfer in (sent, refused):
        path = f"/v1/connect/transfer/id/{transfer['id']}"
        wait_until(lambda path=path: ask("GET", path)["status"] != "PROCESSING")
    ask("POST", "/sandbox/v1/returns", dict(end_to_end_id=sent["end_to_end_id"], amount=100))
    wait_until(lambda: ask("GET", "/v1/connect/refund/list"))
    return Shop(
        holder=own,
        other=other,
        other_charge=played.charge(other, 100, external_id="not-yours"),
        failing=failing,
        failed_id=int(given_up["id"]),
        paid=paid,
        retried=retried,
        sent=sent,
        refused=refused,
    )
