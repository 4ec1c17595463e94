"""The preparation, the first process of ``run``: it updates the tables and, in the sandbox, makes the demonstration.

It is a separate process so that the supervisor stays small. It reports its results to ``run``.
"""

import asyncio

import msgspec

from pixconnect.assembly import operators
from pixconnect.doors.cli.settings import read_settings
from pixconnect.features.sandbox.service.demonstration import DemoCredentials
from pixconnect.platform.config import Settings
from pixconnect.platform.local import embedded_roles, home, postgres_placement
from pixconnect.platform.local.child_process import Lifeline
from pixconnect.platform.local.home import Prepared, SandboxFile
from pixconnect.running import migrate


def prepare_under(lifeline: Lifeline) -> None:
    """Prepare, and report the results to the supervisor."""
    settings = read_settings()
    lifeline.wait_for_start()
    lifeline.report_ready(msgspec.json.encode(asyncio.run(_prepare(settings))))


async def _prepare(settings: Settings) -> Prepared:
    placement = postgres_placement.read_placement(settings.home_path, settings.owner_database_url)
    if placement is not None:
        await embedded_roles.make(settings.owner_database_url, placement)
    # Once, before any other process starts: two of them would each make a key.
    box = operators.prepare_home(settings)
    applied = await migrate.bring_up_to_date(settings, box=box)
    if settings.mode != "sandbox":
        return Prepared(steps_count=len(applied), sandbox_file=None)
    written = home.read_sandbox_file(settings.home_path)
    # The database has only the hash of the client's secret: an earlier start's file still has the secret.
    known = msgspec.convert(written, DemoCredentials, from_attributes=True) if written else None
    credentials, token = await operators.prepare_demo(settings, known)
    file = SandboxFile(
        base_url=settings.public_base_url,
        auth_url=settings.public_auth_url,
        client_id=credentials.client_id,
        client_secret=credentials.client_secret,
        holder_id=credentials.holder_id,
        pix_keys=credentials.pix_keys,
        console_url=settings.public_console_url,
    )
    return Prepared(steps_count=len(applied), sandbox_file=file, console_link_token=token)
