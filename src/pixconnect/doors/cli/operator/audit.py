"""``pixconnect audit``: operators' acts."""

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.kernel.flows import audit as audit_usecases

app = App(name="audit", help="What operators did.")


@app.command(name="list")
def list_entries(
    *,
    limit: Annotated[int, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lte=10_000), show_default=True)] = 100,
    subject: str | None = None,
    json: Json = False,
) -> None:
    """Print operators' acts, newest first: operator, time, verb, subject, and the state before and after.

    Args:
        limit: The most rows to print.
        subject: Only those on this, as the list names it: `holder 2`.
    """
    subjects = None if subject is None else [subject]
    entries = operating.run(audit_usecases.list_entries, subjects=subjects, count_max=limit)
    shown = [output.pick(entry, "id at operator login door verb subject before after request_id") for entry in entries]
    output.show_list("entries", shown, as_json=json)
