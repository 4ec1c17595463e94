"""Opens what sends the spans of a process, if the settings name a collector."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from pixconnect import __version__
from pixconnect.features.traces.rules import Tracer
from pixconnect.platform.config import Settings, SettingsError, is_loopback_host


@asynccontextmanager
async def open_tracer(settings: Settings, process: str) -> AsyncGenerator[Tracer | None]:
    """What sends the spans of a process; ``None`` where none are sent.

    Raises:
        SettingsError: The address is not allowed, or what sends them is not installed.
    """
    if not settings.traces_url:
        yield None
        return
    address = urlsplit(settings.traces_url)
    if settings.mode == "live" and address.scheme != "https" and not is_loopback_host(address.hostname or ""):
        raise SettingsError("PIXCONNECT_TRACES_URL: must be an https:// address, or one of this machine, in live mode")
    try:
        # Here alone: who sends no traces has not these libraries, and loads nothing of them.
        from pixconnect.features.traces.tracer import OtlpTracer  # noqa: PLC0415
    except ImportError as error:
        raise SettingsError(
            f"PIXCONNECT_TRACES_URL: traces need more packages (there is no {error.name}): pip install 'pixconnect[otel]'"
        ) from None
    tracer = OtlpTracer(settings.traces_url, process, __version__)
    try:
        yield tracer
    finally:
        await tracer.close()
