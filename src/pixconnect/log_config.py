"""Settings of what people and machines may watch, which ``config.py`` has among all others."""

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What people and machines may watch."""

    metrics_port: Annotated[int, Meta(ge=0, le=65_000)] = 0
    """The port on 127.0.0.1 of a process's metrics; 0 is none. Under ``run`` the worker's; API processes have the next."""

    log_format: Literal["auto", "console", "json"] = "auto"
    """``auto`` writes for people on a terminal and JSON lines otherwise. People who watch a sandbox are shown a line for each
    request, event and webhook, up to twenty a second and as many that failed, and how many more there were."""

    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least important log lines to write. ``info`` has one for each webhook attempt, ``debug`` also for each request."""

    access_log: Literal["all", "refused", "off"] = "refused"
    """Which requests get a log line, with client, peer, operation, status and duration: each, those answered 401, 403 or 429
    (of many a few, and their number), or none."""

    traces_url: Annotated[str, Meta(pattern=r"^(https?://[^\s?#]+)?$")] = ""
    """Where traces are sent by OTLP over HTTP, such as ``http://127.0.0.1:4318/v1/traces``; empty sends none and costs nothing.
    It needs ``pip install 'pixconnect[otel]'``. In live mode an https address, or one of this very machine."""
