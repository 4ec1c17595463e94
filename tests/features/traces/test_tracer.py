"""Without tracing nothing is imported or wrapped."""

import subprocess
import sys
from contextlib import nullcontext

import pytest

from pixconnect.features.traces.tracer import open_tracer
from pixconnect.platform.config import Settings, SettingsError

_PROCESSES = "import pixconnect.assembly.api, pixconnect.assembly.worker, pixconnect.running.main, sys"


def _run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_no_process_imports_what_sends_traces() -> None:
    loaded = "[name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'google', 'requests')]"
    assert _run(f"{_PROCESSES}; print({loaded}, 'pixconnect.features.traces.otlp' in sys.modules)") == "[] False"


async def test_without_an_address_nothing_is_opened() -> None:
    async with open_tracer(Settings(), "pixconnect-api") as tracer:
        assert tracer is None


def test_without_the_packages_one_line_says_which_extra_has_them() -> None:
    program = f"""{_PROCESSES}, asyncio
from pixconnect.features.traces.tracer import open_tracer
from pixconnect.platform.config import Settings, SettingsError
sys.modules["opentelemetry"] = None
async def main():
    try:
        async with open_tracer(Settings(traces_url="http://127.0.0.1:1/v1/traces"), "pixconnect-api"): ...
    except SettingsError as error:
        print(error)
asyncio.run(main())
"""
    assert _run(program).endswith("pip install 'pixconnect[otel]'")


@pytest.mark.parametrize(
    ("url", "is_allowed"),
    [
        ("http://10.0.0.1:4318/v1/traces", False),
        ("http://127.0.0.1:4318/v1/traces", True),
        ("http://localhost:4318/v1/traces", True),
        ("https://collector.example/v1/traces", True),
    ],
)
async def test_live_mode_sends_nothing_in_the_clear(url: str, is_allowed: bool) -> None:
    allowed = nullcontext() if is_allowed else pytest.raises(SettingsError, match="PIXCONNECT_TRACES_URL: must be an https")
    with allowed:
        async with open_tracer(Settings(mode="live", traces_url=url), "pixconnect-api") as tracer:
            assert tracer is not None
