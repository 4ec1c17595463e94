"""Proposals: one operator proposes an act, another reads it and confirms it by its code.

::

    proposed ──► done        by another operator, or by itself after its waiting time
         ├─────► replaced    by a later one of its kind for the same account or holder
         └─────► lapsed      after 30 days

Each kind is a row of ``KINDS`` (``features/cases/service/adjustment.py``), with its check and its act at the confirmation.
"""

import hashlib
import unicodedata
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec import Struct, structs

from pixconnect.kernel.rules.limit import NO_LIMITS, find_night_begin
from pixconnect.kernel.rules.money import show_reais
from pixconnect.platform.base import errors
from pixconnect.platform.base.clock import format_local


def name_person(operator: str) -> str:
    """Return the person behind an operator's name: ``console ana`` is ana, and ``ana@host`` has given no name.

    Each run of a container may be another host, so one name at two hosts counts as one person. Names on the command line are
    free: this prevents accidental self-confirmation only. In live mode the schema also requires another database login
    (``find_login_conflict``).
    """
    words = _fold(operator)
    while words[:1] == ["console"]:
        del words[0]
    name = " ".join(words)
    return name.partition("@")[0].rstrip() or name


def names_another_door(operator: str) -> bool:
    """Whether a command line's name would look like that of a console, a client or a remembered pattern in the audit.

    Accents, case, blanks and punctuation do not count: ``console-ana`` reads as ``console ana``.
    """
    letters = filter(str.isalnum, unicodedata.normalize("NFKD", operator).casefold())
    return "".join(letters).startswith(("console", "client", "pattern"))


def _fold(operator: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", operator).casefold()
    return "".join(character for character in folded if unicodedata.category(character) != "Cf").split()


LAPSES_AFTER: Final = timedelta(days=30)
_CODE_LENGTH: Final = 8
_NONE: Final[Mapping[str, Mapping[str, str]]] = dict(
    limits={name: "none" for name, value in structs.asdict(NO_LIMITS).items() if value is None},
    approvals=dict(approve_above_cents="none"),
)


class Proposal(Struct, frozen=True, kw_only=True):
    """An account or a holder has at most one pending proposal of each act."""

    act: str
    institution_id: int | None = None  # the account that it is about; otherwise it is about a holder
    holder_id: int | None = None
    contents: Mapping[str, str | int]  # the act's own fields
    proposed_by: str
    proposed_at: datetime
    confirmable_at: datetime
    acts_at: datetime | None = None  # when it takes effect without a second operator; ``None`` is never

    @property
    def code(self) -> str:
        """A short code of its contents.

        The confirming operator states what they read, since a later proposal may have replaced it.
        """
        subject = (self.act, self.institution_id, self.holder_id)
        read = (*subject, sorted(self.contents.items()), self.proposed_by, self.proposed_at.timestamp())
        return hashlib.sha256(msgspec.json.encode(read)).hexdigest()[:_CODE_LENGTH]

    @property
    def contents_text(self) -> str:
        """Its contents for people; a limit that it removes is `none`."""
        contents = {**_NONE.get(self.act, {}), **self.contents}
        return ", ".join(_write_field(name, value, self.proposed_at) for name, value in sorted(contents.items()))

    @property
    def text(self) -> str:
        """All of it in one line, for the confirming operator."""
        return f"{self.act} ({self.contents_text}), proposed by {self.proposed_by}, code {self.code}"

    @property
    def lapses_at(self) -> datetime:
        return self.proposed_at + LAPSES_AFTER


def _write_field(name: str, value: str | int, at: datetime) -> str:
    # As `holder set` takes these two.
    if name == "night_begins_late":
        name, value = "night_begins", find_night_begin(is_late=value == 1, now=at)
    elif name == "approve_new_payees":
        value = "true" if value else "false"
    elif name.endswith("_cents") and isinstance(value, int):
        value = show_reais(value)
    elif isinstance(value, str) and "\n" in value:
        value = f"sha256 {hashlib.sha256(value.encode()).hexdigest()}"  # certificates: compared with a file, not read
    return f"{name.removesuffix('_cents')} {value}"


def check_confirmation(proposal: Proposal, operator: str, now: datetime) -> None:
    """Refuse the operator who proposed it, and a confirmation that is too early or too late."""
    if name_person(operator) == name_person(proposal.proposed_by):
        same = "" if operator == proposal.proposed_by else f", and {operator} counts as the same person"
        raise errors.Forbidden(f"confirm: {proposal.proposed_by} has proposed it{same}: another operator confirms")
    if now < proposal.confirmable_at:
        raise errors.BadRequest(f"confirm: may be confirmed from {format_local(proposal.confirmable_at)} on")
    if now >= proposal.lapses_at:
        raise errors.BadRequest(f"confirm: lapsed on {format_local(proposal.lapses_at)}: propose it again")
