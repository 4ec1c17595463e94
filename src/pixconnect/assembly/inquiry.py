"""What asks an institution and records what it answers, as the worker does: for a verb, and for the console."""

from __future__ import annotations

from pixconnect.adapters.rails.institution import RecordingRail
from pixconnect.assembly.operators import open_operator_beside_service
from pixconnect.config import Settings
from pixconnect.domain.frame import errors
from pixconnect.usecases.frame.context import Context, Operator
from pixconnect.usecases.institutions import inquiry
from pixconnect.usecases.institutions.inquiry import InquiryAnswer
from pixconnect.usecases.institutions.open_accounts import at_account


async def ask(settings: Settings, name: str, asked: str) -> InquiryAnswer:
    """As ``usecases.institutions.inquiry.ask``, at the account of this name."""
    async with open_operator_beside_service(settings, "pixconnect ask") as (operator, context):
        return await ask_at(context, operator, name, asked)


async def ask_at(context: Context, operator: Operator, name: str, asked: str) -> InquiryAnswer:
    """The same in a process that has a context open."""
    # As the service: the console's own login may not read accounts.
    account = await inquiry.find_asked(context, name)
    opened = await context.institutions.find_read(account.id)
    if opened is None:
        raise errors.BadRequest(f"name: the account {name} is not open")
    return await inquiry.ask(operator, at_account(context, account, RecordingRail()), opened, asked)
