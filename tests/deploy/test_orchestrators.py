"""Compose file and manifests match their schemas, and run each part as its systemd unit does."""

import os
import re
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml

from pixconnect.platform import environment
from support.installation import ROOT
from support.production_guide import LOGINS, variables

DEPLOY = ROOT / "deploy"
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS = list(yaml.safe_load_all((DEPLOY / "kubernetes" / "pixconnect.yaml").read_text(encoding="utf-8")))
PARTS = ("migrate", "serve", "work", "console", "verify")


def _program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


@pytest.mark.parametrize(
    "words",
    [
        ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", "deploy/compose.yaml"],
        ["kubernetes-validate", "--strict", "deploy/kubernetes/pixconnect.yaml"],
    ],
)
def test_they_keep_their_schemas(words: list[str]) -> None:
    done = subprocess.run([_program(words[0]), *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _pods() -> dict[str, dict[str, Any]]:
    """Each part's pod, by name."""
    found = dict[str, dict[str, Any]]()
    for manifest in MANIFESTS:
        outer = manifest.get("spec", {})
        outer = outer.get("jobTemplate", {}).get("spec", outer)
        if "template" in outer:
            found[manifest["metadata"]["name"]] = outer["template"]["spec"]
    return found


def test_each_part_is_started_by_both_with_settings_that_exist() -> None:
    assert {*_pods()} == {*PARTS}
    for name, pod in _pods().items():
        (container,) = pod["containers"]
        assert container["args"] == [name]
        given = {each["name"]: "x" for each in container.get("env", ())}
        assert environment.misspelt_variables(given | MANIFESTS[0]["data"]) == []
    commands = {tuple(each.get("command", ())) for each in COMPOSE["services"].values()}
    assert commands >= {(part,) for part in (*PARTS, "sandbox")}
    for service in COMPOSE["services"].values():
        assert environment.misspelt_variables(service.get("environment", {})) == []


def test_nothing_runs_as_root_or_writes_where_it_is_installed() -> None:
    for pod in _pods().values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        # It has the secrets of its work: the owner's and the operators' logins are for `migrate` alone.
        secrets = {each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each}
        assert ("pixconnect-operators" in secrets) == (container["args"] == ["migrate"])
    for name, service in COMPOSE["services"].items():
        if name not in {"postgres", "proxy"}:
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name


def test_no_machine_is_trusted_to_name_addresses_until_the_manifest_names_one() -> None:
    networks = environment.read_settings(
        {"PIXCONNECT_TRUSTED_PROXIES": MANIFESTS[0]["data"]["PIXCONNECT_TRUSTED_PROXIES"]}
    ).read_networks("trusted_proxies")
    assert [each.subnet_of(ip_network("192.0.2.0/24")) for each in networks] == [True]  # RFC 5737: for examples only


def test_only_those_that_need_a_login_have_its_password() -> None:
    owners = {name for name, each in COMPOSE["services"].items() if "OWNER_PASSWORD" in str(each) and name != "postgres"}
    assert owners == {"migrate"}
    assert {name for name, each in COMPOSE["services"].items() if "OPS_PASSWORD" in str(each)} == {
        "postgres",
        "migrate",
        "operator",
    }


def test_passwords_are_new_each_time_and_every_one_that_is_asked_for() -> None:
    made = [
        subprocess.run([DEPLOY / "passwords.sh"], capture_output=True, text=True, check=True, env=os.environ).stdout
        for _ in range(2)
    ]
    first, second = (dict(line.split("=", 1) for line in each.splitlines()) for each in made)
    assert not {*first.values()} & {*second.values()}
    asked = {*re.findall(r"\$\{([A-Z]+_(?:PASSWORD|KEY))\b", (DEPLOY / "compose.yaml").read_text(encoding="utf-8"))}
    assert asked == {*first}
    assert environment.read_settings({"PIXCONNECT_SECRET_KEY": first["SECRET_KEY"]}).secret_key
    # The template's fields include each login, as in the addresses here.
    script = (DEPLOY / "image" / "logins.sh").read_text(encoding="utf-8")
    for login in re.findall(r"password '(\w+)-password'", LOGINS):
        assert f"s/{login}-password/${login.upper()}_PASSWORD/" in script


def test_ports_are_those_of_the_proxy_and_of_what_watches() -> None:
    text = (DEPLOY / "nginx" / "pixconnect.conf").read_text(encoding="utf-8")
    for name in ("serve-1", "serve-2"):
        assert f"server 127.0.0.1:{COMPOSE['services'][name]['environment']['PORT']} max_fails=0;" in text
    assert f"server 127.0.0.1:{COMPOSE['services']['console']['environment']['PIXCONNECT_CONSOLE_PORT']};" in text
    scraped = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    for name in ("serve-1", "serve-2", "work-1", "work-2"):
        assert f'127.0.0.1:{COMPOSE["services"][name]["environment"]["PIXCONNECT_METRICS_PORT"]}"' in scraped
    assert (
        COMPOSE["services"]["sandbox"]["environment"]["PIXCONNECT_RAIL_URL"] == variables("service.env")["PIXCONNECT_RAIL_URL"]
    )
