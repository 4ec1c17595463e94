"""Asks the sandbox which fault rule strikes a request at a face, or a callback of one."""

from __future__ import annotations

from pixconnect.domain.simulation import sandbox_control
from pixconnect.domain.simulation.sandbox_control import Message, SandboxUnavailable
from pixconnect.usecases.frame.context import Context


async def draw_fault(context: Context, message: Message) -> str:
    """The effect of the rule; empty where there is none, or nobody to ask."""
    if context.sandbox_control is None:
        return ""
    try:
        return (await context.sandbox_control.call(sandbox_control.DRAW_FAULT, message)).effect or ""
    except SandboxUnavailable:
        return ""
