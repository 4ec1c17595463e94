"""How verbs of institutions open accounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from cyclopts import Parameter

from pixconnect.doors.cli.operating import run
from pixconnect.features.institutions.rules.recording import TakenExchange
from pixconnect.features.institutions.service.open_accounts import OpenInstitution
from pixconnect.kernel.flows.context import Operator

Given = ParamSpec("Given")
Result = TypeVar("Result")

AccountName = Annotated[str, Parameter(help="The account, by the name that it was added under.")]


def run_with_opener(
    use_case: Callable[Concatenate[Operator, OpenInstitution, Given], Awaitable[Result]],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Result:
    """As ``operating.run``, with the opener of accounts."""
    return run(use_case, make_opener(), *args, **kwargs)


def make_opener(note: Callable[[TakenExchange], None] | None = None) -> OpenInstitution:
    """The opener of accounts; ``note`` receives each exchange, with all its secrets."""
    from pixconnect.features.institutions import opener  # noqa: PLC0415
    from pixconnect.platform.adapters.system import SystemClock, SystemEntropy  # noqa: PLC0415  help needs none of it

    return opener.make_opener(SystemClock(), SystemEntropy(), note)
