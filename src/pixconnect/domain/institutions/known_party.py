"""What is known of the other side of a Pix: an institution tells each member of it whole, masked with stars, or not at all.

The contract's shapes require all members, so what is unknown has the values of ``UNKNOWN_PARTY`` there, and what is masked is
shown as it was sent. The trigger ``check_payer`` knows both by the same marks.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import structs

from pixconnect.domain.money.holder import UNKNOWN_PARTY, Party

Certainty = Literal["known", "masked", "unknown"]

_STAR: Final = "*"
_ORDER: Final[tuple[Certainty, ...]] = ("unknown", "masked", "known")
_TOLD: Final = ("account_number", "branch", "ispb", "name", "tax_id")
"""What an institution may tell of a payer."""


def judge_member(party: Party, member: str) -> Certainty:
    """How a member of a party is known that an institution told."""
    text = getattr(party, member)
    if text is None or text == getattr(UNKNOWN_PARTY, member):
        return "unknown"
    return "masked" if _STAR in text else "known"


def complete_party(known: Party, told: Party) -> Party:
    """The party with what is told of it now and was not known so well; equal to what was known if nothing is."""
    better = {
        member: getattr(told, member)
        for member in _TOLD
        if _ORDER.index(judge_member(told, member)) > _ORDER.index(judge_member(known, member))
    }
    return structs.replace(known, **better)


def compare_parties(known: Party, told: Party) -> dict[str, tuple[object, object]]:
    """What was known and what is told now, of the members that contradict each other; what is unknown contradicts nothing."""
    return {
        f"payer's {member}": (getattr(known, member), getattr(told, member))
        for member in _TOLD
        if "unknown" not in (judge_member(known, member), judge_member(told, member))
        and not _may_be_same(member, getattr(known, member), getattr(told, member))
    }


def _may_be_same(member: str, known: str, told: str) -> bool:
    """Whether two texts may be one: lists of one institution differ in points, spaces, and zeros in front."""
    known, told = (_simplify(member, text) for text in (known, told))
    if _STAR not in known + told:
        return known == told
    # How long a mask is says nothing of what it hides.
    return len(known) != len(told) or all(
        one == other or _STAR in (one, other) for one, other in zip(known, told, strict=True)
    )


def _simplify(member: str, text: str) -> str:
    if member == "name":
        return " ".join(text.casefold().split())
    bare = "".join(letter for letter in text.upper() if letter.isalnum() or letter == _STAR)
    return bare.lstrip("0") if member in {"account_number", "branch"} else bare
