"""The calls of the sandbox's control, by their names: how each is read, done, and answered."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec

from pixconnect.domain.simulation import sandbox_control
from pixconnect.domain.simulation.sandbox_control import Answered, Asked, ControlCall
from pixconnect.sandbox import contesting, outside, suspect_credit
from pixconnect.sandbox.http_messages import SandboxAnswer
from pixconnect.sandbox.outside import Answering, Outside


def _answering(
    call: ControlCall[Asked, Answered], do: Callable[[Outside, Asked], Awaitable[Answered]]
) -> tuple[str, Answering]:
    """Decode the call, execute it, and encode the answer."""
    decode = msgspec.json.Decoder(call.asked).decode

    async def answer(world: Outside, body: bytes) -> SandboxAnswer:
        return SandboxAnswer(200, msgspec.json.encode(await do(world, decode(body))))

    return call.name, answer


CALLS: Final[Mapping[str, Answering]] = dict(
    (
        _answering(sandbox_control.PAY, outside.pay),
        _answering(sandbox_control.JUDGE_CREDIT, suspect_credit.decide_suspect_credit),
        _answering(sandbox_control.GIVE_BACK, outside.give_back),
        _answering(sandbox_control.MOVE, outside.move),
        _answering(sandbox_control.OPEN_INFRACTION, contesting.contest_credit),
        _answering(sandbox_control.DECIDE_INFRACTION, contesting.judge_contest),
        _answering(sandbox_control.LIST_KEYS, outside.list_keys),
        _answering(sandbox_control.ADD_KEY, outside.add_key),
        _answering(sandbox_control.MAKE_QR_CODE, outside.make_qr_code),
        _answering(sandbox_control.READ_FAULTS, outside.read_faults),
        _answering(sandbox_control.REPLACE_FAULTS, outside.replace_faults),
        _answering(sandbox_control.DRAW_FAULT, outside.find_effect),
        _answering(sandbox_control.READ_AUTHORITY, outside.read_authority),
        _answering(sandbox_control.SET_OFFSET, outside.set_offset),
        _answering(sandbox_control.READ_DUE, outside.read_due),
    )
)
