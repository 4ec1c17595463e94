"""Maps constraint violations to the caller's errors, if facts changed after they were checked."""

from typing import Final

from pixconnect.platform.base import errors

SUCCEEDED: Final = "another account succeeded this one: get a new token"
_ANSWERS: Final[dict[str, tuple[type[errors.PixConnectError], str]]] = {
    "who_was_succeeded_starts_nothing": (errors.HolderBlocked, SUCCEEDED),
    "a_charge_opens_on_its_holders_account": (
        errors.ServiceUnavailable,
        "the holder was put on another account meanwhile; nothing was done",
    ),
}


def find_refusal(error: BaseException) -> errors.PixConnectError | None:
    """Find the error for the constraint that ``error`` names; ``None`` for our own defects."""
    answer = _ANSWERS.get(getattr(error, "constraint_name", None) or "")
    return answer[0](answer[1]) if answer else None
