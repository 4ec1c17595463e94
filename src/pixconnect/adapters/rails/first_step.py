"""The first of two steps of sending, as the rail of an account takes it: remembered, and compared, before the second one."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from pixconnect.adapters.rails.ended_step import end_step, reject_by
from pixconnect.domain.institutions.first_step import FirstStep, NamedPix, is_another_owner
from pixconnect.domain.institutions.institution import CertainRefusal, Sender
from pixconnect.domain.institutions.rail_memory import MemoryUnavailable, OutgoingPix, RailMemory, RailStep
from pixconnect.domain.money import reject_code
from pixconnect.domain.money.holder import Party
from pixconnect.domain.money.rail import NotTaken, SubmitAnswer

_OTHER_OWNER: Final = "The key is not the named owner's, as the institution told before anything was paid."


async def take_first_step(
    sender: Sender, memory: RailMemory, step: RailStep, pix: OutgoingPix
) -> RailStep | SubmitAnswer:
    """Name an order that has no name there yet: its row as it is then, or what becomes of it instead.

    Nothing moves by it. So whatever fails, or was cut off, is no call, and may be done again.
    """
    if not isinstance(sender, FirstStep):
        return NotTaken()
    told = await sender.mint(pix)
    if isinstance(told, CertainRefusal):
        return await _refuse(memory, step, told.reject_code or reject_code.WRONG_CONTENTS, told.reason)
    # No answer, and nothing moved: the order stays unsent, and is tried again.
    if not isinstance(told, NamedPix):
        return NotTaken()
    minted = structs.replace(
        step, state="minted", code_there=told.code, owner_tax_id=told.owner_tax_id, owner_name=told.owner_name
    )
    # In the row before it is used: of two processes that asked, the second writes nothing, and goes on by the first one's
    # name when it tries again.
    return await _take(memory, step, minted) or NotTaken()


async def refuse_another(memory: RailMemory, step: RailStep, payee: Party) -> SubmitAnswer | None:
    """End an order whose key is somebody else's than the caller named; ``None`` where nothing says so."""
    if step.state != "minted" or not is_another_owner(payee, step.owner_tax_id):
        return None
    return await _refuse(memory, step, reject_code.OTHER_OWNER, _OTHER_OWNER)


async def _refuse(memory: RailMemory, step: RailStep, code: str, reason: str) -> SubmitAnswer:
    """Certain whatever is there, since nothing was called that moves money; so it is also where somebody else has the row."""
    refused = end_step(step, "refused", code, reason)
    return NotTaken() if await _take(memory, step, refused) is None else reject_by(refused)


async def _take(memory: RailMemory, before: RailStep, after: RailStep) -> RailStep | None:
    try:
        return after if await memory.take(before, after) else None
    except MemoryUnavailable:
        return None
