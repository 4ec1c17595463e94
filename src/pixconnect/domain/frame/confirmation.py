"""Who is another person: what one operator wants, a second one confirms."""

from __future__ import annotations

import unicodedata

from pixconnect.domain.frame import errors


def name_person(operator: str) -> str:
    """Who acts, by whichever door, host and typing: ``console ana`` is ana, and ``ana@host`` who has given no name.

    Each run of a container may be another host; so of one name at two places there is one person.
    Names of the command line are free, so this keeps one person from confirming by a slip, and not by intent.
    """
    folded = unicodedata.normalize("NFKC", operator).casefold()
    seen = "".join(character for character in folded if unicodedata.category(character) != "Cf")
    words = seen.split()
    while words[:1] == ["console"]:
        del words[0]
    name = " ".join(words)
    return name.partition("@")[0].rstrip() or name


def check_second_operator(verb: str, operator: str, proposed_by: str) -> None:
    """Raise ``Forbidden``, which names the verb, for the person who has proposed it."""
    if name_person(operator) == name_person(proposed_by):
        raise errors.Forbidden(f"{verb}: {operator} has proposed it: another operator confirms")
