"""Starts a child process, and knows what the parent can do with it."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import Protocol


class Process(Protocol):
    """As much of ``subprocess.Popen`` as the supervisor uses."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...

    def send_signal(self, sig: int, /) -> None: ...

    def kill(self) -> None: ...


class Launch(Protocol):
    async def __call__(
        self, command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
    ) -> Process:
        """Start a process that leads a session of its own; it learns its descriptors as ``--<name>=<n>``."""
        ...


async def start_program(
    command: Sequence[str], environment: Mapping[str, str], descriptors: Sequence[tuple[str, int]]
) -> Process:
    """Start a program of its own; as ``Launch``."""
    return subprocess.Popen(  # noqa: ASYNC220, S603 - it does not wait; our own words only
        [*command, *name_descriptors(descriptors)],
        stdin=subprocess.DEVNULL,
        env=dict(environment),
        pass_fds=[descriptor for _, descriptor in descriptors],
        # Ctrl-C reaches only the supervisor, which lets requests under way finish.
        start_new_session=True,
    )


def name_descriptors(descriptors: Sequence[tuple[str, int]]) -> list[str]:
    return [f"--{name}={descriptor}" for name, descriptor in descriptors]
