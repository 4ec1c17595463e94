"""Refusals and warnings of live mode from settings alone; for those of verbs see ``test_mode.py``."""

from pathlib import Path
from typing import Literal

import pytest

from pixconnect.doors.cli import live_mode
from pixconnect.doors.cli.settings import write_start
from pixconnect.platform.config import Settings, SettingsError
from pixconnect.platform.environment import read_settings
from pixconnect.running import console
from support import postgres
from support.command_line import CommandLine
from support.postgres import Addresses

LIVE = {
    "PIXCONNECT_MODE": "live",
    "PIXCONNECT_BASE_URL": "https://pix.example",
    "PIXCONNECT_ISPB": "12345678",
    "PIXCONNECT_INSTITUTION_NAME": "Banco Exemplo",
}
NAMED = LIVE | {"PIXCONNECT_TRUSTED_PROXIES": "127.0.0.1/32"}

UNNAMED = {"TRUSTED_PROXIES": ""}


def read_live(tmp_path: Path, **more: str) -> Settings:
    return read_settings(LIVE | {"PIXCONNECT_HOME": str(tmp_path)} | more)


def far(url: str, **environment: str) -> str | None:
    return live_mode._find_far_host(url, environment)


def test_a_database_of_this_machine_needs_no_certificate() -> None:
    for url in (
        "",
        "postgresql:///pix",
        "postgresql://app:p@127.0.0.1/pix",
        "postgresql://app:p@[::1]:5432/pix",
        "postgresql://app@localhost:5433,127.0.0.2/pix",
        "postgresql://app@%2Fvar%2Frun%2Fpostgresql/pix",
        "postgresql:///pix?host=/run/postgresql",
    ):
        assert far(url) is None, url


def test_a_database_elsewhere_is_reached_with_verify_full_or_not_at_all() -> None:
    for mode in ("", "?sslmode=disable", "?sslmode=prefer", "?sslmode=require", "?sslmode=verify-ca"):
        assert far(f"postgresql://app:p@db.example/pix{mode}") == "db.example", mode
    assert far("postgresql://app:p@db.example/pix?sslmode=verify-full&sslrootcert=/etc/ca.pem") is None


def test_the_host_is_found_wherever_the_driver_would_find_it() -> None:
    assert far("postgresql:///pix?host=/tmp,db.example") == "db.example"
    assert far("postgresql://127.0.0.1,db.example:5433/pix") == "db.example"
    assert far("postgresql://app@[2001:db8::1]:5432/pix") == "[2001:db8::1]"
    assert far("postgresql:///pix", PGHOST="db.example") == "db.example"
    assert far("postgresql:///pix", PGSERVICE="pix") == "the service pix"
    assert far("postgresql://app@db.example/pix", PGSSLMODE="verify-full") is None
    assert far("postgresql://app@db.example/pix?sslmode=prefer", PGSSLMODE="verify-full") == "db.example"
    assert far("postgresql://app@10.0.0.5/pix", PGHOST="127.0.0.1") == "10.0.0.5"


@pytest.mark.parametrize("name", live_mode.DATABASE_URLS)
def test_every_address_of_a_database_is_looked_at_and_an_operator_may_let_it_be(name: str, tmp_path: Path) -> None:
    variable = f"PIXCONNECT_{name.upper()}"
    address = {variable: "postgresql://app:hidden@db.example/pix"}
    with pytest.raises(SettingsError, match=f"^{variable}: reaches db.example") as refused:
        live_mode.refuse_unsafe_database(read_live(tmp_path, **address))
    assert "hidden" not in str(refused.value)
    live_mode.refuse_unsafe_database(read_live(tmp_path, **address, PIXCONNECT_DATABASE_TLS="off-by-operator"))
    live_mode.refuse_unsafe_database(read_settings(address))


def test_nothing_is_refused_nor_warned_of_in_a_sandbox_or_a_good_live_service(tmp_path: Path) -> None:
    sandbox = read_settings({"PIXCONNECT_HOME": str(tmp_path), "PIXCONNECT_BASE_URL": "https://pix.example"})
    assert [*live_mode.list_refusals(sandbox), *live_mode.list_risks(sandbox)] == []
    good = read_settings(NAMED | {"PIXCONNECT_HOME": str(tmp_path)})
    assert [*live_mode.list_refusals(good), *live_mode.list_risks(good)] == []


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"BASE_URL": "http://x.example", "AUTH_URL": "https://x.example"}, "PIXCONNECT_BASE_URL: must be an https:// address"),
        ({"AUTH_URL": "http://id.example"}, "PIXCONNECT_AUTH_URL: must be an https:// address in live mode"),
        (UNNAMED | {"HOST": "0.0.0.0"}, "PIXCONNECT_TRUSTED_PROXIES: missing; in live mode"),  # noqa: S104  refused
        (UNNAMED | {"CONSOLE_HOST": "0.0.0.0"}, "PIXCONNECT_TRUSTED_PROXIES: missing; in live mode"),  # noqa: S104  refused
        ({"TRUSTED_PROXIES": ",", "HOST": "0.0.0.0"}, "PIXCONNECT_TRUSTED_PROXIES: missing; in live mode"),  # noqa: S104  refused
        ({"TRUSTED_PROXIES": " , ", "CONSOLE_HOST": "192.0.2.1"}, "PIXCONNECT_TRUSTED_PROXIES: missing; in live mode"),
        ({"TRUSTED_PROXIES": "127.0.0.1, 0.0.0.0/0"}, "PIXCONNECT_TRUSTED_PROXIES: 0.0.0.0/0 is too wide; in live mode"),
        ({"TRUSTED_PROXIES": "::/1,fc00::/7"}, "PIXCONNECT_TRUSTED_PROXIES: ::/1 is too wide; in live mode"),
        (
            {"BASE_URL": "https://u:hidden@x.example", "AUTH_URL": "https://x.example"},
            "PIXCONNECT_BASE_URL: must have no user info, query or fragment",
        ),
        ({"AUTH_URL": "https://x.example/?a=hidden"}, "PIXCONNECT_AUTH_URL: must have no user info, query or fragment"),
        ({"CONSOLE_BASE_URL": "https://x.example#hidden"}, "PIXCONNECT_CONSOLE_BASE_URL: must have no user info"),
        ({"INSTITUTION_NAME": " \u2003"}, "PIXCONNECT_INSTITUTION_NAME: is blank or not printable; in live mode"),
        ({"INSTITUTION_NAME": "Banco\u202eX"}, "PIXCONNECT_INSTITUTION_NAME: is blank or not printable; in live mode"),
        ({"TLS_PORT": "8443"}, "PIXCONNECT_TLS_PORT: in live mode, "),
        (
            {"TLS_PORT": "8443", "BASE_URL": "https://pix.example:8443", "AUTH_URL": "https://x.example"}
            | dict.fromkeys(("TLS_CERTIFICATE_FILE", "TLS_KEY_FILE", "TLS_AUTHORITY_FILE"), "some.pem"),
            "PIXCONNECT_TLS_CLIENT_CERTIFICATE: PIXCONNECT_BASE_URL leads to PIXCONNECT_TLS_PORT, where payers'",
        ),
        ({"INSTITUTION_NAME": ""}, "PIXCONNECT_INSTITUTION_NAME: Pix Connect Sandbox is the sandbox's; in live mode"),
        ({"DATABASE_URL": "postgresql://u:p@db.example/pix?sslmode=require"}, "PIXCONNECT_DATABASE_URL: reaches db.example"),
    ],
)
def test_each_unsafe_setting_is_refused_and_named(settings: dict[str, str], complaint: str, tmp_path: Path) -> None:
    given = NAMED | {f"PIXCONNECT_{name}": value for name, value in settings.items()}
    (refused,) = live_mode.list_refusals(read_settings(given | {"PIXCONNECT_HOME": str(tmp_path)}))
    assert refused.startswith(complaint)
    assert "hidden" not in refused


def test_a_proxy_that_nobody_named_is_warned_of_unless_callers_connect_to_us(tmp_path: Path) -> None:
    for unnamed in ("", ","):
        found = live_mode.list_risks(read_live(tmp_path, PIXCONNECT_TRUSTED_PROXIES=unnamed))
        assert next(found).startswith("PIXCONNECT_TRUSTED_PROXIES: not set, so"), unnamed
    assert not read_live(tmp_path, PIXCONNECT_BASE_URL="https://localhost:8443").lacks_proxies
    direct = {"PIXCONNECT_TLS_PORT": "8443", "PIXCONNECT_TLS_HOST": "192.0.2.1"}
    assert not read_live(tmp_path, PIXCONNECT_BASE_URL="https://pix.example:8443", **direct).lacks_proxies
    assert read_live(tmp_path, **direct).lacks_proxies


@pytest.mark.parametrize(
    ("port", "base_url", "proxies", "is_public"),
    [
        ("443", "https://pix.example", "", True),
        ("443", "https://pix.example/path", "", True),
        ("443", "https://pix.example", "10.0.0.0/24", False),
        ("443", "https://pix.example:443", "10.0.0.0/24", True),
        ("8443", "https://pix.example", "", False),
        ("0", "https://pix.example", "", False),
    ],
)
def test_the_usual_port_is_implied(port: str, base_url: str, proxies: str, *, is_public: bool, tmp_path: Path) -> None:
    given = {"PIXCONNECT_TLS_PORT": port, "PIXCONNECT_BASE_URL": base_url, "PIXCONNECT_TRUSTED_PROXIES": proxies}
    assert read_live(tmp_path, **given).is_tls_port_public is is_public


@pytest.mark.parametrize(
    ("mode", "setting", "is_required"),
    [
        ("live", "auto", True), ("live", "required", True), ("live", "optional", False), ("sandbox", "auto", False),
        ("sandbox", "required", True), ("sandbox", "optional", False),
    ],
)  # fmt: skip
def test_live_requires_certificates_on_the_tls_port_unless_a_setting_differs(
    mode: Literal["live", "sandbox"], setting: Literal["auto", "required", "optional"], *, is_required: bool
) -> None:
    assert Settings(mode=mode, tls_client_certificate=setting).requires_client_certificate is is_required


def test_live_shows_strangers_nothing_of_its_system(tmp_path: Path) -> None:
    assert Settings().shows_system
    assert not read_live(tmp_path).shows_system


def test_browsers_are_told_to_come_back_to_the_console_by_https_where_it_is_served_so() -> None:
    names = {secure: {name for name, _ in console._safe_headers(is_secure=secure)} for secure in (False, True)}
    assert names[True] - names[False] == {"strict-transport-security"}


def test_in_live_mode_nobody_is_told_to_run_make(tmp_path: Path) -> None:
    assert write_start(read_live(tmp_path)).endswith("PIXCONNECT_MODE=live pixconnect run")


def test_doctor_tells_all_that_live_refuses_and_what_to_do(pixconnect: CommandLine) -> None:
    done = pixconnect.run(
        "doctor",
        PIXCONNECT_MODE="live",
        PIXCONNECT_BASE_URL="https://pix.example",
        PIXCONNECT_OPERATOR_DATABASE_URL="postgresql://ops@db.example/pix",
    )
    assert done.returncode == 6
    for told in (
        "! live: refused: PIXCONNECT_INSTITUTION_NAME: ",
        "! live: refused: PIXCONNECT_OPERATOR_DATABASE_URL: reaches db.example",
        "! live: PIXCONNECT_TRUSTED_PROXIES: not set",
    ):
        assert told in done.stdout
    # Whether an account exists is seen by health and the worker.
    assert "institution add" not in done.stdout
    assert "make run" not in done.stdout + done.stderr


@pytest.mark.long
def test_doctor_tells_before_an_upgrade_if_the_tables_fit(pixconnect: CommandLine, database: Addresses) -> None:
    assert pixconnect.run("migrate", PIXCONNECT_OWNER_DATABASE_URL=database.owner_url).returncode == 0
    owner = {"PIXCONNECT_OWNER_DATABASE_URL": database.owner_url}
    done = pixconnect.run("doctor", "--upgrade", **owner)
    assert done.returncode == 0, done.stdout
    assert "+ upgrade: the tables of pixconnect are this version's" in done.stdout
    postgres.execute(database.owner_url, "insert into pixconnect.schema_version values (9999, 'newer', 'x')")
    done = pixconnect.run("doctor", "--upgrade", **owner)
    assert done.returncode == 6
    assert "! upgrade: " in done.stdout
