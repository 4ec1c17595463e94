"""How the network treats an order, a refund or a question: by the fault rules, or else as it usually does."""

from collections.abc import Mapping, Sequence

from pixconnect.domain.money.rail import Order, RefundOrder
from pixconnect.sandbox import behaviour, directory
from pixconnect.sandbox.behaviour import Behaviour
from pixconnect.sandbox.fault import Faults, Message
from pixconnect.sandbox.tables import KnownOrder, Original


def of_order(faults: Faults, order: Order) -> Behaviour:
    # Before all rules: the network rejects this itself.
    if order.amount_cents < 1:
        return behaviour.reject(behaviour.USUAL, "AM01")
    if faults.rules:
        key, amount_cents = order.credit_party.key, order.amount_cents
        how = faults.behaviour_of(
            Message(operation="submit", id=order.end_to_end_id, key=key, amount_cents=amount_cents)
        )
        if how is not None:
            return how
    return directory.behaviour_to(order.credit_party)


def of_refunds(faults: Faults, orders: Sequence[RefundOrder], originals: Mapping[str, Original]) -> list[Behaviour]:
    left = {original.id: original.amount_cents - original.refunded_cents for original in originals.values()}
    behaviours: list[Behaviour] = []
    for order in orders:
        original = originals.get(order.original_end_to_end_id)
        key = None if original is None else original.key
        message = Message(operation="refund", id=order.return_id, key=key, amount_cents=order.amount_cents)
        how = faults.behaviour_of(message) or directory.behaviour_of_refund(order.description)
        if original is not None and how.code is None:
            if left[original.id] < order.amount_cents:
                how = behaviour.reject(how, "AM09")
            elif how.arrives and not how.is_refused:
                # Orders of the same group share what is left.
                left[original.id] -= order.amount_cents
        behaviours.append(how)
    return behaviours


def of_query(faults: Faults, order_id: str, order: KnownOrder | None) -> Behaviour:
    if not faults.rules:
        return behaviour.USUAL
    key, amount_cents = (None, None) if order is None else (order.key, order.amount_cents)
    return (
        faults.behaviour_of(Message(operation="query", id=order_id, key=key, amount_cents=amount_cents))
        or behaviour.USUAL
    )
