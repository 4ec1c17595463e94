"""A test server with its data on a small disk, if one can be mounted, and disks that fill up."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from pixconnect.platform.local.embedded_postgres import EmbeddedPostgres
from support.home import new_home

SIZE: Final = "256m"


@contextmanager
def server_on_small_disk() -> Iterator[tuple[EmbeddedPostgres, asyncio.Runner]]:
    """A running server, and the loop for its coroutines."""
    with ExitStack() as ended:
        folder, log_folder = ended.enter_context(new_home()), ended.enter_context(new_home())
        words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", folder]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:  # otherwise it is not permitted
            ended.callback(subprocess.run, ["umount", "--lazy", folder], check=True)
            folder.chmod(0o711)
        runner = ended.enter_context(asyncio.Runner())
        server = EmbeddedPostgres(folder)
        runner.run(server.start())
        ended.callback(lambda: runner.run(server.stop()))
        runner.run(server.stop())
        # The log is on another disk: a server without room for its log ends, which is another failure.
        log = server.data_folder / "pg_wal"
        subprocess.run(["cp", "-a", log, log_folder / "wal"], check=True)
        subprocess.run(["rm", "-r", log], check=True)
        log.symlink_to(log_folder / "wal")
        runner.run(server.start())
        yield server, runner


def is_on_small_disk(server: EmbeddedPostgres) -> bool:
    folder = server.data_folder.parent
    return any(os.path.ismount(each) for each in (folder, *folder.parents) if each != Path("/"))


def fill_disk(folder: Path) -> Path:
    filling = folder / "filling"
    with filling.open("wb", buffering=0) as file, suppress(OSError):  # it has no space left
        while True:
            file.write(bytes(1 << 16))
    return filling
