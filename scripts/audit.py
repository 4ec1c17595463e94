"""Check the locked packages for known vulnerabilities (``.ci/audit``), by pip-audit, which has a lock of its own.

A finding fails unless ``requirements/answered.toml`` answers it with a reason and a day. If a lock could not be
checked, the audit fails with a separate status.
"""

import json
import os
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ("pip", "run", "service", "otel", "dev", "ha", "audit")
ANSWERED: Final = ROOT / "requirements" / "answered.toml"
NOT_ALL_ASKED: Final = 3
_TIMEOUT_S: Final = 600

Finding = tuple[str, str, str]  # package, version and the id of the vulnerability


def main() -> int:
    """Check each lock; 1 for a finding without an answer, 3 if a lock could not be checked."""
    program = sys.argv[1] if len(sys.argv) > 1 else "pip-audit"
    answered = read_answers(ANSWERED.read_text(encoding="utf-8"))
    found: set[Finding] = set()
    asked_count = 0
    for lock in LOCKS:
        known, lacking = ask(program, ROOT / "requirements" / f"{lock}.txt")
        found |= known
        asked_count += not lacking
        if lacking:
            print(f"audit: NOT DONE for {lock}.txt, what is known cannot be read: {lacking}")
    for package, version, name in sorted(found):
        print(f"audit: {package} {version}: {name}: {answered.get((package, name), 'NOT ANSWERED')}")
    for package, name in sorted(answered.keys() - {(package, name) for package, _, name in found}):
        print(f"audit: {package}: {name} is answered, and not found any more: take the answer out")
    left = [each for each in found if (each[0], each[2]) not in answered]
    print(f"audit: {asked_count} of {len(LOCKS)} locks asked, {len(found)} findings, {len(left)} without an answer")
    return 1 if left else 0 if asked_count == len(LOCKS) else NOT_ALL_ASKED


def ask(program: str, lock: Path) -> tuple[set[Finding], str]:
    """The findings of a lock, and the reason if it could not be checked completely."""
    words = [program, "--format=json", "--progress-spinner=off", "--require-hashes", "--disable-pip", "-r", str(lock)]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False, env=trusting_environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return set(), f"{program}: {type(error).__name__}"
    try:
        return read_findings(json.loads(done.stdout))
    except (ValueError, KeyError, TypeError):
        return set(), (done.stderr.strip().splitlines() or [f"{program} ended with {done.returncode}"])[-1][:300]


def trusting_environment() -> dict[str, str]:
    """The environment with the machine's certificate authorities, which pip-audit does not use by default."""
    machine = ssl.get_default_verify_paths().cafile
    return ({"REQUESTS_CA_BUNDLE": machine} if machine else {}) | os.environ


def read_findings(told: Mapping[str, Any]) -> tuple[set[Finding], str]:
    """Read pip-audit's JSON. It counts packages that it could not check as free of findings."""
    skipped = [each for each in told["dependencies"] if "skip_reason" in each]
    lacking = f"{len(skipped)} packages; {skipped[0]['skip_reason']}"[:300] if skipped else ""
    asked = [each for each in told["dependencies"] if "skip_reason" not in each]
    return {(each["name"].lower(), each["version"], known["id"]) for each in asked for known in each["vulns"]}, lacking


def read_answers(text: str) -> dict[tuple[str, str], str]:
    """The answers by package and id; ends the program if one lacks its reason or day."""
    rows: Sequence[Mapping[str, Any]] = tomllib.loads(text).get("answer", [])
    answers: dict[tuple[str, str], str] = {}
    for row in rows:
        lacking = {"package", "id", "reason", "day"} - {name for name, value in row.items() if value}
        if lacking:
            sys.exit(f"{ANSWERED.name}: an answer lacks {', '.join(sorted(lacking))}: {dict(row)}")
        answers[row["package"].lower(), row["id"]] = f"answered on {row['day']}: {row['reason']}"
    return answers


if __name__ == "__main__":
    sys.exit(main())
