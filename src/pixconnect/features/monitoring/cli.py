"""``pixconnect report``: reports of the rail that an operator must check."""

from typing import Annotated

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.kernel.flows import kept_report as kept_usecases
from pixconnect.kernel.rules.kept_report import KeptReport

app = App(name="report", help="List and resolve reports of the rail that wait for an operator.")

ReportId = Annotated[int, WHOLE_NUMBER, Parameter(name=("--report-id", "--id"), validator=Number(gte=1, lt=2**53))]


@app.command(name="list")
def list_(
    *, with_closed: Annotated[bool, Parameter(name="--all", negative=(), show_default=False)] = False, json: Json = False
) -> None:
    """Print the reports that wait for an operator, newest first.

    Args:
        with_closed: Also print closed reports.
    """
    found = operating.run(kept_usecases.list_kept, with_closed=with_closed)
    output.show_list("reports", [_shown(kept) for kept in found], as_json=json)


@app.command
def show(report_id: ReportId, *, json: Json = False) -> None:
    """Print one report, with all of the rail's data.

    Args:
        report_id: Its id, as `list` prints it.
    """
    kept = operating.run(kept_usecases.read_kept, report_id)
    output.show(_shown(kept) | {"report": kept.report}, as_json=json)


@app.command
def close(report_id: ReportId, *, reason: str, json: Json = False) -> None:
    """Close a settled report. This moves no money; your name and reason are recorded.

    Args:
        report_id: Its id, as `list` prints it.
        reason: Your finding, and your action.
    """
    kept = operating.run(kept_usecases.close_kept, report_id, reason)
    output.show(_shown(kept), as_json=json)


def _shown(kept: KeptReport) -> output.Shown:
    seen = "seen_count first_seen_at last_seen_at closed_at closed_by close_reason"
    return output.pick(kept, f"id kind reason explanation name rail_report_id=report_id refusal_code {seen}")
