"""The context in which reports of one account are taken: its own rail and abilities, and all else as the process has it."""

from __future__ import annotations

from msgspec import structs

from pixconnect.domain.institutions.account import ABILITIES, UNNAMED_ISPB, InstitutionAccount
from pixconnect.domain.money.rail import Rail
from pixconnect.usecases.frame.context import Context


def at_account(context: Context, account: InstitutionAccount, rail: Rail) -> Context:
    policy = structs.replace(context.policy, account=account, abilities=ABILITIES, has_rail=True, ispb=UNNAMED_ISPB)
    return structs.replace(context, policy=policy, rail=rail)
