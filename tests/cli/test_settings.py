from pathlib import Path

import msgspec
import pytest

from pixconnect.cli import sandbox_file, settings
from pixconnect.cli.sandbox_file import SandboxFile
from pixconnect.cli.settings import RUNNING_FILE, Running


def make_running(**changes: str) -> Running:
    return msgspec.structs.replace(
        Running(
            mode="sandbox",
            base_url="http://127.0.0.1:1234",
            auth_url="http://127.0.0.1:1234",
            database_url="postgresql://login@/pixconnect",
            owner_database_url="postgresql://owner@/pixconnect",
            secret_key="",
            rail_url="http://127.0.0.1:2345",
        ),
        **changes,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATABASE_URL", "PIXCONNECT_DATABASE_URL", "PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path))
    return tmp_path


def test_a_verb_beside_a_running_service_takes_over_what_it_found_out(home: Path) -> None:
    (home / RUNNING_FILE).write_bytes(msgspec.json.encode(make_running(mode="live", secret_key="key")))
    found = settings.read_settings()
    assert found.database_url == "postgresql://login@/pixconnect"
    assert found.owner_database_url == "postgresql://owner@/pixconnect"
    assert found.public_auth_url == "http://127.0.0.1:1234"
    assert (found.mode, found.secret_key, found.rail_url) == ("live", "key", "http://127.0.0.1:2345")


def test_a_database_named_in_the_environment_is_another_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / RUNNING_FILE).write_bytes(msgspec.json.encode(make_running()))
    monkeypatch.setenv("DATABASE_URL", "postgresql://mine@/mine")
    found = settings.read_settings()
    assert (found.database_url, found.owner_database_url) == ("postgresql://mine@/mine", "")


def test_without_a_running_service_the_environment_is_all(home: Path) -> None:
    assert settings.read_settings().database_url == ""


def test_the_sandbox_file_reads_back_and_nonsense_is_nothing(tmp_path: Path) -> None:
    assert sandbox_file.read(tmp_path) is None
    file = SandboxFile(
        base_url="b", auth_url="a", client_id="c", client_secret="s", holder_id="1", pix_keys=["k"], console_url="u"
    )
    (tmp_path / sandbox_file.NAME).write_bytes(sandbox_file.encode(file))
    assert sandbox_file.read(tmp_path) == file
    (tmp_path / sandbox_file.NAME).write_text("{")
    assert sandbox_file.read(tmp_path) is None
