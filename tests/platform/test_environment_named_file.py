"""A path from an operator must be a file: anything else neither blocks a verb nor fills its memory."""

import os
import re
import socket
from pathlib import Path

import pytest

from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.operating import load_file
from pixconnect.features.identity.cli.client import _read_certificate  # pyright: ignore[reportPrivateUsage]
from pixconnect.features.institutions.opener import read_text_file
from pixconnect.platform import environment
from pixconnect.platform.adapters.outgoing_http import ClientCertificateError, make_tls
from pixconnect.platform.base import errors
from pixconnect.platform.config import SettingsError
from pixconnect.platform.environment import read_named_file
from pixconnect.platform.http.tls import make_context


@pytest.fixture(params=["fifo", "device", "folder", "socket", "nothing"])
def no_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "named"
    match request.param:
        case "fifo":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(str(path))
        case _:
            pass
    return path


def test_what_is_no_file_is_refused_at_once_wherever_one_is_named(no_file: Path) -> None:
    reason = "it is no regular file|No such file|No such device"
    with pytest.raises(OSError, match=reason):
        read_named_file(no_file)
    with pytest.raises(errors.BadRequest, match=f"{re.escape(str(no_file))}: cannot be read: ({reason})"):
        read_text_file(str(no_file))
    with pytest.raises(SettingsError, match=f"^PIXCONNECT_SECRET_KEY_FILE: .* cannot be read .({reason})"):
        environment.read_settings({"PIXCONNECT_SECRET_KEY_FILE": str(no_file)})
    with pytest.raises(CommandError, match=reason):
        load_file(no_file, 100)
    with pytest.raises(CommandError, match=f"--file: .*({reason})"):
        _read_certificate(no_file)
    with pytest.raises(ClientCertificateError, match=reason):
        make_tls(str(no_file), str(no_file))
    with pytest.raises(OSError, match=reason):
        make_context(str(no_file), str(no_file), str(no_file))


def test_a_file_that_is_too_long_is_not_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"a" * 2048)
    assert read_named_file(path, 2048) == b"a" * 2048
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # it takes no room on the disk
    with pytest.raises(OSError, match="it is longer than 2 KiB"):
        read_named_file(path, 2048)
    with pytest.raises(errors.BadRequest, match="cannot be read: it is longer than 64 KiB"):
        read_text_file(str(path))


def test_a_secret_in_memory_is_a_file() -> None:
    descriptor = os.memfd_create("secret")
    try:
        os.write(descriptor, b"from memory")
        assert read_named_file(f"/proc/{os.getpid()}/fd/{descriptor}") == b"from memory"
    finally:
        os.close(descriptor)
