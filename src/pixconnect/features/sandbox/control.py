"""The control of the sandbox's network, as a process has it."""

from __future__ import annotations

from typing import Final

from pixconnect.features.sandbox.rules import DRAW_FAULT, Message, SandboxControl, SandboxUnavailable
from pixconnect.kernel.flows.context import Context, Port

SANDBOX_CONTROL: Final = Port[SandboxControl | None]("control of the sandbox", None)
"""``None`` in live mode."""


async def draw_fault(context: Context, message: Message) -> str:
    """The effect of the rule; empty if there is none, or no sandbox to ask."""
    control = context.port(SANDBOX_CONTROL)
    if control is None:
        return ""
    try:
        return (await control.call(DRAW_FAULT, message)).effect or ""
    except SandboxUnavailable:
        return ""
