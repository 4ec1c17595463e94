"""What a verb opens that asks an institution and records what it answers, as the worker does."""

from __future__ import annotations

from pixconnect.adapters.rails.institution import RecordingRail
from pixconnect.assembly.base import open_base
from pixconnect.assembly.operators import open_operator
from pixconnect.config import Settings
from pixconnect.domain.frame import errors
from pixconnect.usecases.institutions import inquiry
from pixconnect.usecases.institutions.account_context import at_account
from pixconnect.usecases.institutions.inquiry import InquiryAnswer


async def ask(settings: Settings, name: str, asked: str) -> InquiryAnswer:
    """As ``usecases.institutions.inquiry.ask``, at the account of this name."""
    async with open_operator(settings) as operator, open_base(settings, "pixconnect ask") as base:
        account = await inquiry.find_asked(operator, name)
        opened = await base.context.institutions.find(account.id)
        if opened is None:
            raise errors.BadRequest(f"name: the account {name} is not open")
        return await inquiry.ask(operator, at_account(base.context, account, RecordingRail()), opened, asked)
