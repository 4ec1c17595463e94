"""``pixconnect faults``: how the sandbox's network misbehaves."""

from __future__ import annotations

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.cli.frame import output, records, terminal
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.records import Amount
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.cli.integrator.session import open_sandbox
from pixconnect.domain.simulation.sandbox_control import Operation
from pixconnect_client import FaultMatch, FaultOperation, FaultRule

app = App(name="faults", help="Rules by which the sandbox's network misbehaves: one set for all holders.")

_COLUMNS = ("effect", "match.operation", "match.key", "match.amount", "probability", "times")


@app.command(name="list")
def list_rules(*, json: Json = False) -> None:
    """Print the rules: the first that matches wins."""
    with open_sandbox() as session:
        _show(session.client.sandbox.faults().rules, as_json=json)


@app.command
def add(
    effect: str,
    *,
    operation: Operation | None = None,
    key: str | None = None,
    amount: Amount | None = None,
    probability: Annotated[float | None, Parameter(validator=Number(gte=0, lte=1))] = None,
    times: Annotated[int | None, WHOLE_NUMBER, Parameter(validator=Number(gte=0))] = None,
    json: Json = False,
) -> None:
    """Add a rule before the others; prints all of them.

    Args:
        effect: What happens: reject:AC03, delay:3000, no_answer, lost, unavailable, ... (the page on the sandbox has all).
        operation: Only to messages of this kind.
        key: Only where this is the payee's Pix key.
        amount: Only to messages of this amount, in cents.
        probability: Only to this share of them, from 0 to 1.
        times: Only to so many of them.
    """
    match = FaultMatch(key=key, amount=amount, operation=operation and FaultOperation(operation))
    rule = FaultRule(effect=effect, match=match, probability=probability, times=times)
    with open_sandbox() as session:
        rules = session.client.sandbox.faults().rules
        _show(session.client.sandbox.replace_faults([rule, *rules]).rules, as_json=json)


@app.command
def clear() -> None:
    """Remove all rules: the network is well again."""
    with open_sandbox() as session:
        session.client.sandbox.clear_faults()
    terminal.notice("there are no rules now")


def _show(rules: list[FaultRule], *, as_json: bool) -> None:
    output.show_list(
        "rules", [records.shown(rule) for rule in rules], as_json=as_json, columns=_COLUMNS, money=("match.amount",)
    )
