"""The documented controls match the sandbox's behaviour."""

from pixconnect.features.sandbox import rules as sandbox_control
from pixconnect.features.sandbox.network import application as calls
from pixconnect.features.sandbox.rules import CallRow, ControlCall
from pixconnect.kernel.feature import gather


def test_every_call_of_the_control_is_answered_under_a_name_of_its_own() -> None:
    names = [call.name for call in vars(sandbox_control).values() if isinstance(call, ControlCall)]
    assert sorted([*names, *(row.call.name for row in gather("sandbox_calls", CallRow))]) == sorted(calls.CALLS)
