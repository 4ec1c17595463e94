"""Examples of ``docs/guides/faces-in-ci.md`` have the form of their tools; the first is run as printed."""

import ast
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "guides" / "faces-in-ci.md").read_text(encoding="utf-8")

SHOP_TEST = """
import json, requests

def test_a_charge_is_made_at_the_bank_on_the_day_that_was_chosen():
    face = json.load(open("face.json"))
    bank = requests.Session()
    bank.trust_env = False  # where it names other authorities
    bank.verify, bank.cert = face["authority_file"], face["both_file"]
    login = ("Client_Id_of_CI", "a-secret-of-CI")
    token = bank.post(face["url"] + "/oauth/token", auth=login, json={"grant_type": "client_credentials"}).json()
    cob = {"calendario": {"expiracao": 60}, "valor": {"original": "1.00"}, "chave": "loja@demo.pix.example"}
    bank.headers["authorization"] = "Bearer " + token["access_token"]
    made = bank.put(face["url"] + "/v2/cob/" + "a" * 30, json=cob).json()
    assert made["calendario"]["criacao"].startswith("2031-03-14"), made
"""


def read_example(language: str, heading: str) -> str:
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    found = re.search(rf"^```{language}\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("heading", "schema"), [("GitHub Actions", "github-workflows.json"), ("Compose", "compose-spec.json")])
def test_an_example_has_the_form_that_its_reader_publishes(heading: str, schema: str) -> None:
    vendored = resources.files("check_jsonschema") / "builtin_schemas" / "vendor" / schema
    # YAML 1.1 reads the word `on` as a boolean; the tools and this reader keep the word.
    example = yaml.load(read_example("yaml", heading), Loader=yaml.BaseLoader)  # noqa: S506 - texts only
    as_read = yaml.safe_load(read_example("yaml", heading))
    as_read = {("on" if name is True else name): value for name, value in as_read.items()}
    assert example.keys() == as_read.keys()
    jsonschema.validate(as_read, json.loads(vendored.read_text(encoding="utf-8")))


def test_the_example_for_testcontainers_is_python_and_starts_what_compose_starts() -> None:
    code = read_example("python", "Testcontainers")
    ast.parse(code)
    compose = yaml.safe_load(read_example("yaml", "Compose"))["services"]["bank"]
    assert compose["image"] in code
    for words in ("requirements/run.txt", "--no-deps /tmp/source", "pixconnect run"):
        assert words in code
        assert words in compose["command"][-1]


@pytest.mark.journey
@pytest.mark.long
def test_the_workflow_runs_as_it_stands(tmp_path: Path) -> None:
    job: dict[str, Any] = yaml.safe_load(read_example("yaml", "GitHub Actions"))["jobs"]["test"]
    subprocess.run(["git", "clone", "--quiet", ROOT, tmp_path / "pixconnect"], check=True, timeout=120)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_shop.py").write_text(SHOP_TEST)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIXCONNECT_")}
    told = kept | job["env"] | dict(PATH=path, PORT="0", PIXCONNECT_HOME=str(tmp_path / "home"))
    steps = [step["run"] for step in job["steps"] if "run" in step and "if" not in step]
    # With another port, and more time on a busy machine.
    script = "\n".join(["set -e", *steps])
    for said, meant in (("efi:8101", "efi:0"), ("timeout 60 ", "timeout 300 ")):
        assert said in script
        script = script.replace(said, meant)
    # The runner ends the processes of a job.
    runner = subprocess.Popen(
        ["bash", "-c", script], cwd=tmp_path, env=told, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = runner.communicate(timeout=900)
        assert runner.returncode == 0, said.decode()
        assert b"1 passed" in said
    finally:
        # Its processes may have ended by themselves.
        with suppress(ProcessLookupError):
            os.killpg(runner.pid, signal.SIGTERM)
