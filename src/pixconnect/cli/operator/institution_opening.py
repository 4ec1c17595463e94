"""What verbs about accounts at institutions share: they open the account and ask there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Concatenate, ParamSpec, TypeVar

from cyclopts import Parameter

from pixconnect.cli.frame import operating
from pixconnect.domain.institutions.recording import TakenExchange
from pixconnect.usecases.frame.context import Operator
from pixconnect.usecases.institutions.credential import OpenInstitution

Given = ParamSpec("Given")
Result = TypeVar("Result")
AccountName = Annotated[str, Parameter(help="The account, by the name that it was added under.")]


def run_with_opener(
    use_case: Callable[Concatenate[Operator, OpenInstitution, Given], Awaitable[Result]],
    *args: Given.args,
    **kwargs: Given.kwargs,
) -> Result:
    """As ``operating.run``, with what opens accounts."""
    return operating.run(use_case, make_opener(), *args, **kwargs)


def make_opener(note: Callable[[TakenExchange], None] | None = None) -> OpenInstitution:
    """What opens accounts; ``note`` is shown each exchange, with all that is secret in it."""
    from pixconnect.adapters.system import SystemClock, SystemEntropy  # noqa: PLC0415  help needs none of it
    from pixconnect.assembly import institutions  # noqa: PLC0415

    return institutions.make_opener(SystemClock(), SystemEntropy(), note)
