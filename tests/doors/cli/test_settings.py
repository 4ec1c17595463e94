import errno
import os
from pathlib import Path

import msgspec
import pytest

from pixconnect.assembly import outside
from pixconnect.doors.cli import settings
from pixconnect.doors.cli.failures import CommandError
from pixconnect.doors.cli.settings import RUNNING_FILE, Running
from pixconnect.platform import config, environment
from pixconnect.platform.local.home import SANDBOX_FILE, SandboxFile, encode_sandbox_file, read_sandbox_file
from pixconnect.platform.local.postgres_placement import PLACEMENT_FILE
from support.installation import run_verb


def make_running(mode: str = "sandbox", **secret_files: str) -> Running:
    return Running(
        mode=mode,
        base_url="http://127.0.0.1:1234",
        auth_url="http://127.0.0.1:1234",
        database_url="postgresql://login@/pixconnect",
        owner_database_url="postgresql://owner@/pixconnect",
        console_database_url="postgresql://console@/pixconnect",
        rail_url="http://127.0.0.1:2345",
        secret_files=secret_files,
    )


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATABASE_URL", "PIXCONNECT_DATABASE_URL", "PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIXCONNECT_HOME", str(tmp_path))
    return tmp_path


def test_faces_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = environment.read_settings({"PIXCONNECT_FACES": "efi:0"})
    assert [str(listener) for listener in settings.read_listeners(wanted)] == ["efi:0"]
    monkeypatch.setattr("pixconnect.kernel.feature.find_others", dict)
    with pytest.raises(config.SettingsError, match=r"^PIXCONNECT_FACES: needs the package pixconnect-faces: install it"):
        settings.read_listeners(wanted)


def test_a_verb_beside_a_running_service_takes_over_what_it_found_out(home: Path) -> None:
    (home / "key").write_text("key\n")
    (home / RUNNING_FILE).write_bytes(msgspec.json.encode(make_running(mode="live", secret_key=str(home / "key"))))
    found = settings.read_settings()
    assert found.database_url == "postgresql://login@/pixconnect"
    assert found.owner_database_url == "postgresql://owner@/pixconnect"
    assert found.console_login_url == "postgresql://console@/pixconnect"
    assert found.public_auth_url == "http://127.0.0.1:1234"
    assert (found.mode, found.secret_key, found.rail_url) == ("live", "key", "http://127.0.0.1:2345")


def test_a_database_named_in_the_environment_is_another_service(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / RUNNING_FILE).write_bytes(msgspec.json.encode(make_running()))
    monkeypatch.setenv("DATABASE_URL", "postgresql://mine@/mine")
    found = settings.read_settings()
    assert (found.database_url, found.owner_database_url) == ("postgresql://mine@/mine", "")


def test_without_a_running_service_the_environment_is_all(home: Path) -> None:
    assert settings.read_settings().database_url == ""


def test_a_service_of_another_user_is_told_in_one_line(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(CommandError, match=r"running.json cannot be read \(Permission denied\): run this as the user"):
        settings.read_settings()
    assert home.is_dir()


@pytest.mark.parametrize("verb", [("migrate",), ("holder", "show", "--holder-id", "1")])
@pytest.mark.parametrize("was_killed", [True, False])
def test_beside_a_stopped_service_a_verb_says_so(home: Path, verb: tuple[str, ...], *, was_killed: bool) -> None:
    (home / PLACEMENT_FILE).touch()
    if was_killed:
        nowhere = f"postgresql://x@/x?host={home}"
        gone = msgspec.structs.replace(make_running(), database_url=nowhere, owner_database_url=nowhere)
        (home / RUNNING_FILE).write_bytes(msgspec.json.encode(gone))
    done = run_verb(home, *verb, secret_key="A" * 43)
    assert done.returncode == 1
    start = f"start `PORT=0 PIXCONNECT_HOME={home} make run` (or the same with `pixconnect run`) first"
    assert done.stderr == f"pixconnect: nothing runs on {home}: {start}\n"


@pytest.mark.parametrize(
    ("base_url", "given", "start"),
    [
        ("http://127.0.0.1:9090", "", "PORT=9090 PIXCONNECT_HOME={} make run"),
        ("http://127.0.0.1:9090", "9191", "PORT=9191 PIXCONNECT_HOME={} make run"),
        ("http://127.0.0.1:8080", "", "PIXCONNECT_HOME={} make run"),
        ("https://pix.example", "", "PIXCONNECT_HOME={} make run"),
    ],
)
def test_a_stopped_service_is_started_again_at_the_port_that_it_had(
    home: Path, monkeypatch: pytest.MonkeyPatch, base_url: str, given: str, start: str
) -> None:
    file = SandboxFile(
        base_url=base_url, auth_url="", client_id="", client_secret="", holder_id="1", pix_keys=[], console_url=""
    )
    (home / "sandbox.json").write_bytes(msgspec.json.encode(file))
    if given:
        monkeypatch.setenv("PORT", given)
    assert settings.write_start(settings.read_settings()) == start.format(home)
    monkeypatch.chdir(home.parent)
    monkeypatch.setenv("PIXCONNECT_HOME", ".pixconnect")
    assert settings.write_start(settings.read_settings()) == (f"PORT={given} make run" if given else "make run")


def test_what_came_from_the_environment_is_read_from_memory_and_written_nowhere(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIXCONNECT_SECRET_KEY", "hunter2")
    monkeypatch.setenv("DATABASE_URL", "postgresql://pix:hunter3@/mine")
    files = settings.make_secret_files(environment.read_settings())
    written = msgspec.json.encode(msgspec.structs.replace(make_running(**files), database_url=""))
    assert b"hunter" not in written
    (home / RUNNING_FILE).write_bytes(written)
    monkeypatch.delenv("PIXCONNECT_SECRET_KEY")
    monkeypatch.delenv("DATABASE_URL")
    found = settings.read_settings()
    assert (found.secret_key, found.database_url) == ("hunter2", "postgresql://pix:hunter3@/mine")
    for path in files.values():
        os.close(int(path.rpartition("/")[2]))
    assert settings.read_settings().secret_key == ""


def test_the_sandbox_file_reads_back_and_nonsense_is_nothing(tmp_path: Path) -> None:
    assert read_sandbox_file(tmp_path) is None
    file = SandboxFile(
        base_url="b", auth_url="a", client_id="c", client_secret="s", holder_id="1", pix_keys=["k"], console_url="u"
    )
    (tmp_path / SANDBOX_FILE).write_bytes(encode_sandbox_file(file))
    assert read_sandbox_file(tmp_path) == file
    (tmp_path / SANDBOX_FILE).write_text("{")
    assert read_sandbox_file(tmp_path) is None


@pytest.mark.parametrize(
    ("variables", "may_be_reached"),
    [
        ({}, True),
        ({"HOST": "localhost"}, True),
        ({"HOST": "::1"}, True),
        ({"HOST": "127.0.0.2"}, True),
        ({"HOST": "0.0.0.0"}, False),  # noqa: S104
        ({"HOST": "192.0.2.7"}, False),
        ({"HOST": "::"}, False),
        ({"HOST": "pix.example"}, False),
        ({"BASE_URL": "http://localhost:8080"}, True),
        ({"BASE_URL": "https://pix.example"}, False),
        ({"HOST": "0.0.0.0", "SANDBOX_LOOPBACK": "allowed"}, True),  # noqa: S104
        ({"SANDBOX_LOOPBACK": "forbidden"}, False),
        ({"MODE": "live"}, False),
        ({"MODE": "live", "SANDBOX_LOOPBACK": "allowed"}, False),
    ],
)
def test_this_machines_loopback_may_be_reached_where_only_this_machine_reaches_the_sandbox(
    variables: dict[str, str], may_be_reached: bool
) -> None:
    found = environment.read_settings({f"PIXCONNECT_{name}": value for name, value in variables.items()})
    assert found.may_reach_loopback is may_be_reached


def test_hosts_named_for_the_sandbox_are_those_of_a_sandbox_only() -> None:
    named = {"PIXCONNECT_SANDBOX_RECEIVERS": "web,10.0.0.0/8"}
    assert outside.read_named_receivers(environment.read_settings(named)).names == {"web"}
    live = outside.read_named_receivers(environment.read_settings({**named, "PIXCONNECT_MODE": "live"}))
    assert (live.names, live.networks) == (frozenset(), ())


def test_a_network_that_is_none_is_an_error_at_the_start() -> None:
    for variable in ("PIXCONNECT_FORBIDDEN_NETWORKS", "PIXCONNECT_TRUSTED_PROXIES"):
        with pytest.raises(config.SettingsError, match=f"{variable}: .*'nowhere'"):
            environment.read_settings({variable: "10.0.0.0/8, nowhere"})
    found = config.Settings(forbidden_networks="198.41.0.0/24,2606:4700:1::1").read_networks("forbidden_networks")
    assert [str(network) for network in found] == ["198.41.0.0/24", "2606:4700:1::1/128"]
