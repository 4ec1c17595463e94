"""Contests (MED) as Efi lists them, and the sending of a holder's answer.

The values of ``razao`` and ``tipoSituacao`` are undocumented: they are only shown, and unknown ones are *other*. The name of
the list's own member is inferred from its other lists.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from pixconnect.features.institutions.adapters import wire
from pixconnect.features.institutions.adapters.calls import Call, Calls
from pixconnect.features.institutions.adapters.message import Content, as_members
from pixconnect.features.institutions.adapters.standard import PagedList, list_rows
from pixconnect.features.institutions.rules.institution import InstitutionUnavailable
from pixconnect.features.institutions.rules.sweep import CONTESTS_SPAN, ContestWord, ListedContest, MalformedItem
from pixconnect.kernel.register import ARRANGEMENT
from pixconnect.kernel.rules.block_report import Defence, DefenceAnswer, DefenceRefused, DefenceTaken, DefenceUnknown, Situation
from pixconnect.kernel.rules.money import AMOUNT_MAX_CENTS
from pixconnect.platform.base.clock import Clock

CONTESTS: Final = "/v2/gn/infracoes"
# The maximum length of a list is undocumented.
_LIST: Final = PagedList(route="account", path=CONTESTS, member="infracoes", page_size=100, window=timedelta(days=30))
_WORDS_MAX: Final = 2000
_NAME: Final = re.compile("[A-Za-z0-9_-]{1,64}")
_STATUSES: Final = dict[str, ContestWord](
    ABERTA="open", EM_DEFESA="answered", ACEITA="accepted", REJEITADA="rejected", CANCELADA_EFI="rejected"
)
_SITUATIONS: Final = dict[str, Situation](
    SCAM="scam", GOLPE="scam", ACCOUNT_TAKEOVER="account_takeover", COERCION="coercion", FRAUDULENT_ACCESS="fraudulent_access"
)
_REFUSED: Final = dict[int, str](
    ((404, "the institution has no such contest"), (422, "the institution no longer accepts an answer"))
)
"""The closed list of conclusive answers, by status: the errors' names are undocumented."""


class EfiContests:
    """The port ``Contests``."""

    def __init__(self, calls: Calls, clock: Clock, text_length_max: int) -> None:
        self._calls = calls
        self._clock = clock
        self.text_length_max = text_length_max

    async def list_contests(self, since: datetime, until: datetime) -> AsyncGenerator[Sequence[ListedContest | MalformedItem]]:
        async for rows in list_rows(self._calls, _LIST, since, until):
            yield wire.read_each(rows, decode_contest)

    async def defend(self, defence: Defence) -> DefenceAnswer:
        # Both sources have only one analysis: that the payer is in the wrong.
        body = {"analise": "rejeitado", "justificativa": defence.text}
        change = Call("account", "POST", f"{CONTESTS}/{defence.name}/defesa", body, repeated_on=(401,))
        answer = await self._calls.change(change)
        if not isinstance(answer, Content):
            return DefenceUnknown()
        if answer.is_success:
            return DefenceTaken()
        # A gateway may answer by any status: only the institution's own form counts.
        if not answer.members:
            return DefenceUnknown()
        if answer.status == 409:
            return await self._judge_answered(defence)
        reason = _REFUSED.get(answer.status)
        return DefenceUnknown() if reason is None else DefenceRefused(reason=reason)

    async def _judge_answered(self, defence: Defence) -> DefenceAnswer:
        """Judge a contest that has an answer: ours, if an earlier call was lost, or one from a person at the institution."""
        now = self._clock.real_now()
        try:
            async for page in self.list_contests(now - CONTESTS_SPAN, now):
                for contest in page:
                    if isinstance(contest, ListedContest) and contest.name == defence.name and contest.defence:
                        is_ours = contest.defence == defence.text
                        return DefenceTaken() if is_ours else DefenceRefused(reason="it was answered there by others")
        except InstitutionUnavailable:
            pass
        return DefenceUnknown()


def decode_contest(members: Mapping[str, object]) -> ListedContest:
    """Read a contest; ``Malformed`` if any of it is unreliable."""
    amount_cents = wire.take_number_of_reais(members, "valor")
    if not 1 <= amount_cents <= AMOUNT_MAX_CENTS:
        raise wire.Malformed("valor is no amount that a Pix can have")
    analysis = as_members(members.get("dadosAnalise")) or {}
    opened_at = wire.find_instant(analysis, "abertura") or wire.take_instant(members, "criadoEm")
    reason = wire.find_free_text(members, "razao", 200) or ""
    return ListedContest(
        name=_take_name(members),
        end_to_end_id=wire.take_end_to_end_id(members, "endToEndId"),
        amount_cents=amount_cents,
        status=wire.take_status(members, _STATUSES),
        reason="operational_flaw" if "OPERA" in reason.upper() else "fraud",
        situation=_SITUATIONS.get((wire.find_free_text(members, "tipoSituacao", 200) or "").upper(), "other"),
        words=wire.find_free_text(members, "comentario", _WORDS_MAX),
        # With the maximum length of an answer, so that ours is found again.
        defence=wire.find_free_text(members, "defesa", 10_000),
        opened_at=opened_at,
        # Without its own deadline, the arrangement's time for an institution's analysis applies.
        respond_by=wire.find_instant(analysis, "prazoFinalizacao")
        or opened_at + ARRANGEMENT.find("contest_analysis", opened_at).duration,
        reported_at=wire.find_instant(members, "atualizadoEm") or wire.find_instant(analysis, "finalizacao") or opened_at,
    )


def _take_name(members: Mapping[str, object]) -> str:
    value = members.get("idInfracao")
    # Number or text: undocumented.
    text = str(value) if type(value) is int and value >= 0 else value
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise wire.Malformed("idInfracao is no name")
    return text
