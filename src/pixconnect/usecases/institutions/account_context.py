"""The context in which reports of one account are taken: its own rail and abilities, and all else as the process has it."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from pixconnect.domain.institutions.account import UNNAMED_ISPB, InstitutionAccount
from pixconnect.domain.money.rail import Abilities, Rail
from pixconnect.usecases.frame.context import Context

ABILITIES: Final = Abilities(
    refuses_credits=False, refunds_partly=True, resolves_keys=False, issues_codes=True, keeps_our_id=False
)
"""Of every account at an institution: what settled there has settled, whatever we say to it."""


def at_account(context: Context, account: InstitutionAccount, rail: Rail) -> Context:
    policy = structs.replace(context.policy, account=account, abilities=ABILITIES, has_rail=False, ispb=UNNAMED_ISPB)
    return structs.replace(context, policy=policy, rail=rail)
