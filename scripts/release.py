"""Make a release in ``dist`` (``make release``): wheels of server, faces and client, sources, locks, parts list, checksums.

The version comes from the commit's tag (``v1.2.3``), and the changelog's "Unreleased" becomes its section. It works on
a copy of the commit, so uncommitted files have no effect and the repository is unchanged.
"""

import argparse
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.message import Message
from importlib import metadata
from pathlib import Path
from typing import Any, Final, cast

ROOT = Path(__file__).resolve().parents[1]
_TAG: Final = re.compile(r"v(\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?)")
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)[^\n]*((?:\n    --hash=sha256:[0-9a-f]{64}[^\n]*)*)", re.MULTILINE)
_UNRELEASED: Final = "## [Unreleased]"


def main() -> None:
    """Make all of it, or fail with a reason in one line."""
    parser = argparse.ArgumentParser(description="Make a release of the tagged commit.")
    parser.add_argument("--to", type=Path, default=ROOT / "dist")
    folder = parser.parse_args().to.absolute()
    version = read_version(ROOT)
    folder.mkdir(parents=True, exist_ok=True)
    if list(folder.iterdir()):
        sys.exit(f"{folder} is not empty: move away what is there")
    with tempfile.TemporaryDirectory(prefix="pixconnect-release-") as copied:
        copy = Path(copied)
        export(ROOT, copy)
        stamp(copy, version, datetime.now(UTC).date().isoformat())
        build(copy, folder)
        parts = list_parts((copy / "requirements" / "run.txt").read_text(encoding="utf-8"))
        # Installations from these locks have exactly the tested packages, with or without those of laptops.
        for lock in ("run", "service", "otel"):
            shutil.copy(copy / "requirements" / f"{lock}.txt", folder / f"pixconnect-{version}-{lock}.txt")
    (folder / f"pixconnect-{version}.cdx.json").write_text(json.dumps(describe(version, parts), indent=1) + "\n")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(folder.iterdir())]
    (folder / "SHA256SUMS").write_text("".join(lines))
    print("".join(lines), end="")


def read_version(root: Path) -> str:
    """The version in the commit's tag; ends the program without one, or if there are uncommitted changes."""
    asked = ["git", "-C", str(root), "describe", "--tags", "--exact-match"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    if (found := _TAG.fullmatch(told)) is None:
        sys.exit("this commit has no tag of a version: git tag v1.2.3")
    changed = ["git", "-C", str(root), "status", "--porcelain"]
    if subprocess.run(changed, capture_output=True, text=True, check=True).stdout:
        sys.exit("not everything is committed: a release is of a commit")
    return found[1]


def export(root: Path, folder: Path) -> None:
    """Write the commit's files into a folder."""
    archive = subprocess.run(["git", "-C", str(root), "archive", "HEAD"], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")


def stamp(folder: Path, version: str, day: str) -> None:
    """Write the version into the packages, and with the day into the changelog."""
    replace_once(folder / "pyproject.toml", r'^version = ".*"$', f'version = "{version}"')
    replace_once(folder / "src" / "pixconnect" / "__init__.py", r'^__version__ = ".*"$', f'__version__ = "{version}"')
    replace_once(folder / "faces" / "pyproject.toml", r'^version = ".*"$', f'version = "{version}"')
    replace_once(
        folder / "faces" / "pyproject.toml", r'^dependencies = \["pixconnect==.*$', f'dependencies = ["pixconnect=={version}"]'
    )
    # "Unreleased" may be followed by the next version.
    unreleased = f"^{re.escape(_UNRELEASED)}.*\n"
    replace_once(folder / "CHANGELOG.md", unreleased, f"{_UNRELEASED}\n\n## [{version}] - {day}\n")


def replace_once(file: Path, pattern: str, by: str) -> None:
    text, count = re.subn(pattern, lambda _: by, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{file.name}: has {count} lines of the form {pattern}, and must have one")
    file.write_text(text, encoding="utf-8")


def build(copy: Path, folder: Path) -> None:
    """The documentation site, the server's wheel with it, its source, and those of the faces and the client."""
    # The copy's program has the release's version.
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy / 'faces' / 'src'}"}
    subprocess.run([sys.executable, "-m", "scripts.site"], cwd=copy, env=environment, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=copy, check=True, capture_output=True)
    script = "import sys; from flit_core import buildapi; buildapi.build_wheel(sys.argv[1]); buildapi.build_sdist(sys.argv[1])"
    words = [sys.executable, "-c", script, str(folder)]
    for name in ("faces", "clients/python"):
        subprocess.run(words, cwd=copy / name, check=True, capture_output=True)


def list_parts(lock: str) -> list[dict[str, Any]]:
    """The locked packages, with their licences if known here."""
    return [
        {
            "type": "library",
            "name": name,
            "version": version,
            "purl": f"pkg:pypi/{name.lower()}@{version}",
            "bom-ref": f"pkg:pypi/{name.lower()}@{version}",
            **read_licence(name),
            "externalReferences": [{"type": "distribution", "url": f"pkg:pypi/{name.lower()}@{version}", "hashes": hashes}],
        }
        for name, version, pinned in _PINNED.findall(lock)
        for hashes in [[{"alg": "SHA-256", "content": each} for each in re.findall(r"sha256:([0-9a-f]{64})", pinned)]]
    ]


def read_licence(name: str) -> Mapping[str, Any]:
    """The licence for CycloneDX; empty if the package is not installed here or names none."""
    try:
        told = cast(Message, metadata.metadata(name))
    except metadata.PackageNotFoundError:
        return {}
    if expression := told.get("License-Expression"):
        return {"licenses": [{"expression": expression}]}
    words = [each.rpartition(" :: ")[2] for each in told.get_all("Classifier", []) if each.startswith("License ::")]
    words = words or [line for line in (told.get("License") or "").splitlines()[:1] if line.strip()]
    return {"licenses": [{"license": {"name": each}} for each in words]} if words else {}


def describe(version: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts list in CycloneDX 1.6."""
    own = {"type": "application", "name": "pixconnect", "version": version, "bom-ref": "pixconnect"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"licenses": [{"expression": "Apache-2.0"}]}},
        "components": parts,
        "dependencies": [{"ref": "pixconnect", "dependsOn": [each["bom-ref"] for each in parts]}],
    }


if __name__ == "__main__":
    main()
