"""The audit trail, the proof's runs, and cases."""

from typing import Final

from starlette.responses import Response

from pixconnect.doors.console import wanted
from pixconnect.doors.console.application import OverviewPart, PageRoute
from pixconnect.doors.console.forms import read_field
from pixconnect.doors.console.visit import MenuEntry, Visit
from pixconnect.features.cases.rules import KINDS, Evidence, parse_ending_claim, parse_kind
from pixconnect.features.cases.service import adjustment as adjustment_usecases
from pixconnect.features.cases.service import answer as answer_usecases
from pixconnect.features.cases.service import case as case_usecases
from pixconnect.features.cases.service import case_ending as ending_usecases
from pixconnect.features.cases.service.adjustment import WantedAdjustment
from pixconnect.features.cases.service.answer import WantedAnswer
from pixconnect.features.cases.service.case_ending import WantedEnding
from pixconnect.features.institutions.rules.unmatched import ANSWERS
from pixconnect.features.proof.service import verify
from pixconnect.kernel.flows import audit
from pixconnect.platform.base import errors

PAGE_SIZE: Final = 50
RUNS_MAX: Final = 14
FINDINGS_MAX: Final = 50  # of one run; the command line prints all of them
_OPERATORS: Final = "the audit is the operators'"


async def show_audit(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    before_id = wanted.read_id(visit.query("before"))
    subjects = [about] if (about := visit.query("about")) else None
    entries = await audit.list_entries(visit.operator, before_id=before_id, subjects=subjects, count_max=PAGE_SIZE)
    return visit.page("audit.html", entries=entries, page_size=PAGE_SIZE)


async def show_proof(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    runs = await verify.list_runs(visit.context, RUNS_MAX, FINDINGS_MAX)
    return visit.page("proof.html", runs=runs, findings_max=FINDINGS_MAX)


async def show_cases(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    return visit.page("cases.html", cases=await case_usecases.list_cases(visit.context))


async def show_case(visit: Visit) -> Response:
    visit.refuse_holders(_OPERATORS)
    shown = await case_usecases.read_case(visit.context, visit.path_id())
    return visit.page("case.html", shown=shown, kinds=KINDS)


async def note_case(visit: Visit) -> Response:
    operator = visit.begin_act(_OPERATORS)
    await case_usecases.note_case(operator, visit.path_id(), read_field(visit.sent, "note"))
    return visit.go(f"/audit/cases/{visit.path_id()}", notice="saved")


async def close_case(visit: Visit) -> Response:
    operator = visit.begin_act(_OPERATORS)
    await case_usecases.close_cases(operator, [visit.path_id()], read_field(visit.sent, "reason"))
    return visit.go(f"/audit/cases/{visit.path_id()}", notice="saved")


async def propose_adjustment(visit: Visit) -> Response:
    """Propose only: a confirmation moves money, and is on the command line, by a role that console processes lack."""
    operator = visit.begin_act(_OPERATORS)
    wished = WantedAdjustment(
        case_id=visit.path_id(),
        kind=parse_kind(read_field(visit.sent, "kind")),
        amount_cents=_read_cents(visit, "amount"),
        holder_id=_read_id(visit, "whose"),
        undone_id=_read_id(visit, "undo"),
    )
    await adjustment_usecases.propose_adjustment(operator, wished)
    return visit.go(f"/audit/cases/{wished.case_id}", notice="proposed")


async def propose_answer(visit: Visit) -> Response:
    """Propose the meaning of lines of a day; as for an adjustment, another operator confirms it."""
    operator = visit.begin_act(_OPERATORS)
    choices = [str(value).partition(" ") for value in visit.sent.getlist("line")]
    named = {answer: [line for one, _, line in choices if one == answer] for answer in ANSWERS}
    replacing = [line for one, _, line in choices if one == "replace"]
    wished = WantedAnswer(
        case_id=visit.path_id(),
        counts=[*named["counts"], *replacing],
        ours=dict(map(answer_usecases.read_own, named["ours"])),
        aside=named["aside"],
        # A repeated line has the first one's id, with a suffix.
        out=[*named["out"], *(line.rpartition("~")[0] for line in replacing)],
        holder_id=_read_id(visit, "holder_id"),
        with_alike="with_alike" in visit.sent,
    )
    await answer_usecases.propose_answer(operator, wished)
    return visit.go(f"/audit/cases/{wished.case_id}", notice="proposed")


async def propose_ending(visit: Visit) -> Response:
    """Propose how an order ended, identified by operators' file; as for an adjustment, another one confirms it."""
    operator = visit.begin_act(_OPERATORS)
    wished = WantedEnding(
        case_id=visit.path_id(),
        claim=parse_ending_claim(read_field(visit.sent, "claim")),
        evidence=Evidence(
            name=read_field(visit.sent, "evidence_name"),
            # A text that is no number is refused like an empty file.
            size=wanted.read_id(read_field(visit.sent, "evidence_size")) or 0,
            digest=read_field(visit.sent, "evidence_digest").lower(),
        ),
        item_id=read_field(visit.sent, "item") or None,
    )
    await ending_usecases.propose_ending(operator, wished)
    return visit.go(f"/audit/cases/{wished.case_id}", notice="proposed")


def _read_cents(visit: Visit, field: str) -> int | None:
    text = read_field(visit.sent, field)
    return wanted.read_one_amount(field, text) if text else None


def _read_id(visit: Visit, field: str) -> int | None:
    text = read_field(visit.sent, field)
    number = wanted.read_id(text)
    if text and number is None:
        raise errors.BadRequest(f"{field}: must be an id")
    return number


async def count_findings(visit: Visit) -> int:
    """What the last proof of the books found wrong."""
    runs = await verify.list_runs(visit.context, 1, 0)
    return runs[0].run.findings_count if runs else 0


async def count_cases(visit: Visit) -> int:
    return 0 if visit.who.kind == "holder" else await case_usecases.count_cases(visit.context)


MENU: Final = (
    MenuEntry(section="audit", path="/audit/proof", text="Proof of the books", count=count_findings),
    MenuEntry(section="audit", path="/audit/cases", text="Cases", count=count_cases),
)
OVERVIEW: Final = (OverviewPart(template="overview_cases.html", find=count_cases, is_waiting=True),)
_CHANGES: Final = dict(note=note_case, close=close_case, adjust=propose_adjustment, answer=propose_answer, end=propose_ending)
ROUTES: Final = (
    PageRoute(path="/audit", page=show_audit),
    PageRoute(path="/audit/proof", page=show_proof),
    PageRoute(path="/audit/cases", page=show_cases),
    PageRoute(path="/audit/cases/{id}", page=show_case),
    *(PageRoute(path=f"/audit/cases/{{id}}/{name}", page=page, method="POST") for name, page in _CHANGES.items()),
)
