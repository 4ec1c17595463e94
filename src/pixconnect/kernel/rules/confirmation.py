"""Confirmation by a second person of an operator's proposal."""

from __future__ import annotations

import unicodedata

from pixconnect.platform.base import errors


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
    """Whether a command line's name would look like a console's or a client's name in the audit.

    Accents, case, blanks and punctuation do not count: ``console-ana`` reads as ``console ana``.
    """
    letters = filter(str.isalnum, unicodedata.normalize("NFKD", operator).casefold())
    return "".join(letters).startswith(("console", "client"))


def _fold(operator: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", operator).casefold()
    return "".join(character for character in folded if unicodedata.category(character) != "Cf").split()


def check_second_operator(verb: str, operator: str, proposed_by: str) -> None:
    """Raise ``Forbidden``, which names the verb, for the person who proposed it."""
    if name_person(operator) == name_person(proposed_by):
        raise errors.Forbidden(f"{verb}: {operator} has proposed it: another operator confirms")
