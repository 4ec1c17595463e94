"""How well the counterparty of a Pix is known.

An institution reports each member in full, masked with asterisks, or not at all.

The contract's schemas require all members, so unknown ones have the values of ``UNKNOWN_PARTY``, and masked ones are shown as
received. The trigger ``check_payer`` recognizes both by the same marks.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import structs

from pixconnect.kernel.rules.holder import UNKNOWN_PARTY, Party

Certainty = Literal["known", "masked", "unknown"]

_STAR: Final = "*"
_ORDER: Final[tuple[Certainty, ...]] = ("unknown", "masked", "known")
_TOLD: Final = ("account_number", "branch", "ispb", "name", "tax_id")
"""The members of a payer that an institution may report."""


def judge_member(party: Party, member: str) -> Certainty:
    """Return how well a member of a reported party is known."""
    text = getattr(party, member)
    if text is None or text == getattr(UNKNOWN_PARTY, member):
        return "unknown"
    return "masked" if _STAR in text else "known"


def complete_party(known: Party, told: Party) -> Party:
    """Fill in members that were known less well; an equal party if there are none."""
    better = {
        member: getattr(told, member)
        for member in _TOLD
        if _ORDER.index(judge_member(told, member)) > _ORDER.index(judge_member(known, member))
    }
    return structs.replace(known, **better)


def compare_parties(known: Party, told: Party) -> dict[str, tuple[object, object]]:
    """Return members whose known and reported values contradict each other; unknown ones contradict nothing."""
    return {
        f"payer's {member}": (getattr(known, member), getattr(told, member))
        for member in _TOLD
        if "unknown" not in (judge_member(known, member), judge_member(told, member))
        and not _may_be_same(member, getattr(known, member), getattr(told, member))
    }


def _may_be_same(member: str, known: str, told: str) -> bool:
    """Whether two texts may be one: lists of one institution differ in points, spaces, and leading zeros."""
    known, told = (_simplify(member, text) for text in (known, told))
    if _STAR not in known + told:
        return known == told
    # The length of a mask reveals nothing about the hidden text.
    return len(known) != len(told) or all(
        one == other or _STAR in (one, other) for one, other in zip(known, told, strict=True)
    )


def _simplify(member: str, text: str) -> str:
    if member == "name":
        return " ".join(text.casefold().split())
    bare = "".join(letter for letter in text.upper() if letter.isalnum() or letter == _STAR)
    return bare.lstrip("0") if member in {"account_number", "branch"} else bare
