"""``pixconnect audit``: what operators did."""

from heapq import merge
from itertools import islice
from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.cli.frame import operating, output
from pixconnect.cli.frame.output import Json
from pixconnect.cli.frame.whole_number import WHOLE_NUMBER
from pixconnect.store.frame.audit import AuditEntry
from pixconnect.usecases.frame import audit as audit_usecases

app = App(name="audit", help="What operators did.")


@app.command(name="list")
def list_entries(
    *,
    limit: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=10_000), show_default=True)] = 100,
    subject: str | None = None,
    json: Json = False,
) -> None:
    """Print operators' acts, newest first: who, when, which verb, on what, and the state before and after.

    Args:
        limit: The most rows to print.
        subject: Only those on this, as the list names it: `holder 2`.
    """
    subjects = None if subject is None else [subject]
    answers = operating.run_everywhere(
        lambda context: audit_usecases.list_entries(context, subjects=subjects, count_max=limit)
    )
    # Each cell numbers its own, in the order that they were written in.
    by_cell = [[(cell, entry) for entry in own] for cell, own in answers.found]
    newest = islice(merge(*by_cell, key=lambda each: each[1].at, reverse=True), limit)
    output.show_list("entries", [answers.name(cell) | _shown(entry) for cell, entry in newest], as_json=json)
    answers.refuse_missing()


def _shown(entry: AuditEntry) -> output.Shown:
    return {
        "id": entry.id,
        "at": entry.at,
        "operator": entry.operator,
        "verb": entry.verb,
        "subject": entry.subject,
        "before": entry.before,
        "after": entry.after,
        "request_id": entry.request_id,
    }
