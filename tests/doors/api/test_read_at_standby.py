"""Which operations a standby may answer, and what happens if it cannot."""

from typing import Any

import pytest
from msgspec import structs

from pixconnect.assembly.application import make_application
from pixconnect.assembly.operations import list_routes
from pixconnect.doors.api.operation import Services
from pixconnect.kernel.flows.standby import Standby
from pixconnect.kernel.rules.listing import Page
from pixconnect.platform.adapters.system import SystemClock
from pixconnect.platform.base import errors
from pixconnect.platform.logging import AccessLog
from support.api import Api, UseCases
from support.installation import ROOT
from support.service import a_context

LIST = "/v1/connect/charge/list"
OF_CALLERS = {
    "list_charges_by_holder", "list_transfers_by_holder", "list_refunds_by_holder", "list_transactions_by_holder",
    "list_transactions", "retrieve_statement", "list_webhook_deliveries", "list_events",
}  # fmt: skip
OF_THE_STANDARD = {"cob.listar", "cobv.listar"}


class Lists:
    """The answers of both servers, the standby's as chosen."""

    def __init__(self, use_cases: UseCases) -> None:
        self.asked: list[str] = []
        self.failure: Exception | None = None
        use_cases.answers["list_charges"] = self._list

    def _list(self, context: Any, *_: object) -> Page[Any]:
        self.asked.append(context.pool)
        if context.pool == "standby" and self.failure is not None:
            raise self.failure
        return Page(items=[], total_count=0)


@pytest.fixture
def lists(use_cases: UseCases) -> Lists:
    return Lists(use_cases)


@pytest.fixture
def standby() -> Standby:
    """A standby in use."""
    pool: Any = "standby"
    found = Standby(pool, SystemClock(), age_max_s=10)
    found.use(pool)
    found.why_not = None
    return found


@pytest.fixture
def api(services: Services, standby: Standby, lists: Lists) -> Api:
    there = structs.replace(services, context=a_context(pool="primary"), standby=standby)
    return Api(make_application(there, AccessLog(there.context.clock, wanted="off")))


def test_what_decides_about_money_or_shows_what_was_just_written_is_asked_at_the_primary() -> None:
    routes = [row for is_sandbox in (False, True) for row in list_routes(is_sandbox=is_sandbox) if row.may_be_old]
    assert {row.id for row in routes} == OF_CALLERS | OF_THE_STANDARD
    assert {row.method for row in routes} == {"GET"}


def test_the_page_names_these_operations_and_no_others() -> None:
    page = (ROOT / "docs" / "reference" / "http.md").read_text(encoding="utf-8")
    section = page.partition("\n## Lists that may lack the last seconds\n")[2].partition("\n## ")[0]
    rows = [row for row in list_routes(is_sandbox=True) if row.may_be_old and not row.path.endswith("/")]
    named = {line.strip("- `").removeprefix("GET ") for line in section.splitlines() if line.startswith("- `GET ")}
    assert named == {row.path for row in rows if not row.path.startswith("/v2/")}


async def test_a_list_is_read_at_the_standby_unless_the_caller_wants_the_newest(api: Api, lists: Lists) -> None:
    assert (await api.get(LIST)).status == 200
    assert (await api.get(LIST, headers={"Cache-Control": "max-age=0, No-Cache"})).status == 200
    assert lists.asked == ["standby", "primary"]


@pytest.mark.parametrize(
    ("failure", "outcome"), [(ConnectionRefusedError(), "failed"), (errors.NotFound("key: unknown"), "missing")]
)
async def test_what_the_standby_cannot_answer_the_primary_does_and_nobody_notices(
    api: Api, lists: Lists, standby: Standby, failure: Exception, outcome: Any
) -> None:
    lists.failure = failure
    assert (await api.get(LIST)).status == 200
    assert lists.asked == ["standby", "primary"]
    assert standby.outcomes == {outcome: 1}


async def test_a_standby_that_is_not_used_is_not_asked(api: Api, lists: Lists, standby: Standby) -> None:
    standby.why_not = "its tables are 11 s old"
    assert (await api.get(LIST)).status == 200
    assert lists.asked == ["primary"]
