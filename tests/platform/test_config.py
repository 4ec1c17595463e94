"""Settings as they are read, and secrets in files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import pytest

from pixconnect.platform import config, environment
from pixconnect.platform.config import NAMES, Settings, SettingsError
from pixconnect.platform.database_config import DATABASE_URLS
from pixconnect.platform.local.home import closed_mode
from pixconnect.running import run


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_text("from the file\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"PORT": "abc"}, "PORT: must be a whole number; it is 'abc'"),
        ({"PIXCONNECT_PORT": "65536"}, "PIXCONNECT_PORT: must be at most 65535; it is '65536'"),
        ({"PIXCONNECT_SANDBOX_SEED": "1.5"}, "PIXCONNECT_SANDBOX_SEED: must be a whole number; it is '1.5'"),
        ({"PIXCONNECT_MODE": "prod"}, "PIXCONNECT_MODE: must be sandbox or live; it is 'prod'"),
        ({"PIXCONNECT_LOG_LEVEL": "trace"}, "PIXCONNECT_LOG_LEVEL: must be debug, info, warning or error; it is 'trace'"),
        ({"PIXCONNECT_DATABASE_CONNECTIONS_MAX": "0"}, "PIXCONNECT_DATABASE_CONNECTIONS_MAX: must be at least 1; it is '0'"),
        ({"PIXCONNECT_ISPB": "1"}, "PIXCONNECT_ISPB: must have the form ^[0-9A-Z]{8}$; it is '1'"),
        ({"PIXCONNECT_OPERATOR": "x" * 256}, "PIXCONNECT_OPERATOR: must have at most 255 characters"),
    ],
)
def test_a_setting_that_cannot_be_says_what_it_must_be(given: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        environment.read_settings(given)
    assert str(refused.value).startswith(complaint)


@pytest.mark.parametrize("mark", ["/", "?", "#", "@", "[", "]", "/1/", "@/"])
@pytest.mark.parametrize("name", DATABASE_URLS)
def test_an_address_that_falls_apart_in_its_password_is_named_and_not_shown(name: str, mark: str, file: Path) -> None:
    variable = f"PIXCONNECT_{name.upper()}"
    url = f"postgresql://pix_app:hunter{mark}two@db.example:5432/pixconnect?sslmode=verify-full"
    file.write_text(url)
    for given, said in ({variable: url}, variable), ({f"{variable}_FILE": str(file)}, f"{variable}_FILE"):
        with pytest.raises(SettingsError, match=f"{said}: is no address of a PostgreSQL database") as caught:
            environment.read_settings(given)
        assert "hunter" not in str(caught.value)
        assert caught.value.__context__ is None
    assert environment.read_settings({variable: url.replace(f"hunter{mark}two", quote(f"hunter{mark}two", safe=""))})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://pix:p@one:5432,two:5433,three/pixconnect?target_session_attrs=primary",
        "postgresql://pix:p@[::1]:5432/pixconnect",
        "postgresql://pix:p@[::1],[::2]:5433/pixconnect",
        "postgresql://pix:p@/pixconnect?host=/run/postgresql",
        "postgresql:///pixconnect?user=pix@server&host=db.example",
        "postgresql://%2Frun%2Fpostgresql/pixconnect",
        "postgresql://db.example:5432",
    ],
)
def test_whatever_address_the_driver_reads_is_taken(url: str) -> None:
    assert environment.read_settings({"DATABASE_URL": url}).database_url == url


def test_an_empty_variable_is_not_set() -> None:
    names = [variable for name in NAMES for variable in environment._variables(name)]
    assert environment.read_settings(dict.fromkeys(names, "")) == Settings()
    assert environment.read_settings({"PIXCONNECT_PORT": "", "PORT": "81"}).port == 81


def test_no_setting_is_taken_for_a_misspelt_one() -> None:
    names = [variable for name in NAMES for variable in environment._variables(name)]
    names += [f"PIXCONNECT_{name.upper()}_FILE" for name in config.SECRETS]
    orchestrators = ["PIXCONNECT_SERVICE_HOST", "PIXCONNECT_SERVICE_PORT_HTTP", "PIXCONNECT_PORT_8080_TCP_ADDR"]
    assert environment.misspelt_variables(dict.fromkeys([*names, *orchestrators, "PATH"], "")) == []
    (line,) = environment.misspelt_variables({"PIXCONNECT_RETENTION_DAYS": "9"})
    assert line.endswith("did you mean PIXCONNECT_EVENT_RETENTION_DAYS?")


@pytest.mark.parametrize("name", config.SECRETS)
def test_every_secret_may_stand_in_a_file(name: str, file: Path) -> None:
    settings = environment.read_settings({f"PIXCONNECT_{name.upper()}_FILE": str(file)})
    assert getattr(settings, name) == "from the file"


def test_the_secrets_are_these() -> None:
    assert {"secret_key", "secret_key_previous", "database_url", "owner_database_url"} <= set(config.SECRETS)


def test_the_short_name_of_the_database_has_a_file_too(file: Path) -> None:
    assert environment.read_settings({"DATABASE_URL_FILE": str(file)}).database_url == "from the file"


@pytest.mark.parametrize("plain", ["PIXCONNECT_DATABASE_URL", "DATABASE_URL"])
@pytest.mark.parametrize("named", ["PIXCONNECT_DATABASE_URL_FILE", "DATABASE_URL_FILE"])
def test_a_secret_and_its_file_at_once_are_an_error(plain: str, named: str, file: Path) -> None:
    with pytest.raises(SettingsError, match=f"^{plain}: is set, and so is {named}; set one of them$"):
        environment.read_settings({plain: "x", named: str(file)})
    assert environment.read_settings({plain: "", named: str(file)}).database_url == "from the file"


def test_a_file_that_cannot_be_read_or_is_empty_is_named(file: Path) -> None:
    with pytest.raises(SettingsError, match=r"^PIXCONNECT_SECRET_KEY_FILE: .*/nowhere cannot be read \(No such file"):
        environment.read_settings({"PIXCONNECT_SECRET_KEY_FILE": str(file.with_name("nowhere"))})
    file.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match="it is no text"):
        environment.read_settings({"PIXCONNECT_SECRET_KEY_FILE": str(file)})
    file.write_text("\n")
    with pytest.raises(SettingsError, match="is empty"):
        environment.read_settings({"PIXCONNECT_SECRET_KEY_FILE": str(file)})


def test_no_other_setting_is_read_from_a_file(file: Path) -> None:
    assert environment.read_settings({"PIXCONNECT_HOST_FILE": str(file)}).host == "127.0.0.1"


@pytest.mark.long
def test_files_and_homes_that_others_can_read_are_complained_of(tmp_path: Path, file: Path) -> None:
    def complaints() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-m", "pixconnect", "serve"],
            env={
                "PATH": os.environ["PATH"],
                "PIXCONNECT_HOME": str(tmp_path),
                "PIXCONNECT_SECRET_KEY_FILE": str(file),
                "PIXCONNECT_HOST": "256.256.256.256",
                "PORT": "0",
            },
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return [line for line in done.stderr.splitlines() if "open to others" in line]

    tmp_path.chmod(0o711)
    assert complaints() == []
    tmp_path.chmod(0o750)
    file.chmod(0o640)
    (tmp_path / "secret.key").touch(0o604)
    assert complaints() == [
        f"pixconnect: {tmp_path} holds secrets and is open to others (mode 0750): chmod {closed_mode():o} {tmp_path}",
        f"pixconnect: {tmp_path}/secret.key holds secrets and is open to others (mode 0604): chmod 600 {tmp_path}/secret.key",
        f"pixconnect: {file} holds secrets and is open to others (mode 0640): chmod 600 {file}",
    ]


@pytest.mark.parametrize(
    ("mode", "database_url", "user_id", "is_said"),
    [("live", "", 0, True), ("live", "", 1000, False), ("live", "postgresql://x", 0, False), ("sandbox", "", 0, False)],
)
def test_live_money_under_root_with_the_embedded_server_is_complained_of(
    mode: Literal["sandbox", "live"],
    database_url: str,
    user_id: int,
    is_said: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user_id)
    run._complain_of_root(Settings(mode=mode, database_url=database_url))
    assert ("as root" in capsys.readouterr().err) == is_said
