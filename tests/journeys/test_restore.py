"""The guide's blocks that move a dump, as printed, with work under way: nothing is lost, and no id is assigned twice."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import asyncpg
import pytest

from support.home import SECRET_KEY, new_home
from support.installation import running
from support.listener import Listener
from support.ports import reserved_port
from support.production_guide import GUIDE, blocks, prepared_server, settings_on
from support.work_in_flight import Acknowledged, HolderOfHome, check_that_all_ends, put_work_in_flight

pytestmark = pytest.mark.long

INTO_A_NEW_SERVER, INTO_THE_SAME = blocks("sh", GUIDE[GUIDE.index("### Move a dump") : GUIDE.index("### A home")])


async def test_a_dump_moves_to_a_new_server(tmp_path: Path) -> None:
    listener = Listener()
    with new_home() as old, new_home() as new, new_home() as first_home, new_home() as second_home:
        async with prepared_server(old) as (server, old_url), prepared_server(new) as (_, new_url):
            before, after = settings_on(old_url), settings_on(new_url)
            with reserved_port() as port:
                known = work_and_be_killed(first_home, port, before, listener)
                source = before["PIXCONNECT_OWNER_DATABASE_URL"]
                moved = run_block(INTO_A_NEW_SERVER, after, tmp_path, server.programs / "bin", OLD_DATABASE_URL=source)
                assert moved.stderr == ""
                await go_on(second_home, port, after, known, listener)
    listener.close()


@pytest.mark.each_change
async def test_a_dump_is_restored_into_the_same_server_and_what_came_after_it_is_not_repeated(tmp_path: Path) -> None:
    listener = Listener()
    with new_home() as folder, new_home() as first_home, new_home() as second_home:
        async with prepared_server(folder) as (server, url):
            settings, programs = settings_on(url), server.programs / "bin"
            dump = "\n".join(INTO_A_NEW_SERVER.splitlines()[:2])
            with reserved_port() as port:
                known = work_and_be_killed(first_home, port, settings, listener)
                old = settings["PIXCONNECT_OWNER_DATABASE_URL"]
                assert run_block(dump, settings, tmp_path, programs, OLD_DATABASE_URL=old).stderr == ""
                later = await work_again(first_home, port, settings, known)
                restored = run_block(INTO_THE_SAME, settings, tmp_path, programs, SUPERUSER_DATABASE_URL=url)
                assert restored.stderr == ""
                await go_on(second_home, port, settings, known, listener, later_id=later)
    listener.close()


def test_nothing_is_restored_after_a_dump_that_failed(tmp_path: Path) -> None:
    for name, line in {"pg_dump": "exit 1", "pixconnect": "echo ran", "pg_restore": "echo ran"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    given = dict(PATH=f"{tmp_path}:/usr/bin:/bin", OLD_DATABASE_URL="", PIXCONNECT_OWNER_DATABASE_URL="")
    ran = subprocess.run(["sh", "-c", INTO_A_NEW_SERVER], env=given, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")


def work_and_be_killed(home: Path, port: int, settings: Mapping[str, str], listener: Listener) -> Acknowledged:
    with running(home, **_given(port, settings)) as installation:
        known = put_work_in_flight(f"http://127.0.0.1:{port}", installation.sandbox, listener.url)
        installation.kill()
    return known


async def work_again(home: Path, port: int, settings: Mapping[str, str], known: Acknowledged) -> int:
    """Continue for a while with work that no dump will have; returns the last assigned id."""
    with running(home, **_given(port, settings)) as installation:
        id_ = _charge(HolderOfHome(f"http://127.0.0.1:{port}", known.client_id, known.client_secret), installation.sandbox)
        installation.kill()
    return id_


async def go_on(
    home: Path, port: int, settings: Mapping[str, str], known: Acknowledged, listener: Listener, later_id: int = 0
) -> None:
    owner = await asyncpg.connect(settings["PIXCONNECT_OWNER_DATABASE_URL"], server_settings={"search_path": "pixconnect"})
    await owner.execute("update webhook_endpoint set url = $1", f"{listener.url}/{known.holder_id}")
    with running(home, **_given(port, settings)) as installation:
        base_url = f"http://127.0.0.1:{port}"
        made_id = _charge(HolderOfHome(base_url, known.client_id, known.client_secret), installation.sandbox)
        assert made_id > max(later_id, *known.charges.values())
        await check_that_all_ends(base_url, owner, known)
    await owner.close()


def _charge(holder: HolderOfHome, sandbox: Mapping[str, list[str]]) -> int:
    return holder.ask("POST", "/v1/connect/charge", dict(amount=5, key=sandbox["pix_keys"][0]))["id"]


def _given(port: int, settings: Mapping[str, str]) -> dict[str, str]:
    names = ("database_url", "owner_database_url", "operator_database_url", "console_database_url")
    addresses = {name: settings[f"PIXCONNECT_{name.upper()}"] for name in names}
    return addresses | dict(port=str(port), secret_key=SECRET_KEY, api_processes_count="1")


def run_block(
    block: str, settings: Mapping[str, str], folder: Path, programs: Path, **more: str
) -> "subprocess.CompletedProcess[str]":
    """Run a guide's block as an operator."""
    own = dict(PIXCONNECT_SECRET_KEY=SECRET_KEY, PIXCONNECT_HOME=str(folder / "operator"))
    path = os.pathsep.join((f"{sys.prefix}/bin", str(programs), os.environ["PATH"]))
    environment = {**settings, **more, **own, "PATH": path}
    environment.pop("PIXCONNECT_SECRET_KEY_FILE", None)
    ran = subprocess.run(
        ["sh", "-uc", block], cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran
