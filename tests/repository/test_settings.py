"""Every setting is named with its unit, and pages name only those that exist."""

import re
from dataclasses import fields

from pixconnect import config
from pixconnect.config import Settings
from pixconnect_client.testing.service import COMMAND_VARIABLE
from scripts.write_pages import REFERENCE

UNITS = ("_s", "_ms", "_days", "_max", "_count")
COUNTED_IN_NOTHING = {"port", "console_port", "sandbox_port", "sandbox_seed", "metrics_port", "tls_port"}

# `make` reads them, and no process of ours.
OF_CHAOS = {f"PIXCONNECT_CHAOS_{name}" for name in ("SEED", "SEEDS", "MINUTES", "DEFECT", "THERE")}

OF_CLUSTERS = {f"PIXCONNECT_HA_{name}" for name in ("HOME", "NETWORK")} | {
    f"PIXCONNECT_FAILOVER_{name}" for name in ("SEED", "ROUNDS", "KINDS", "WRITE")
}


def test_a_number_has_its_unit_in_its_name() -> None:
    numbers = {field.name for field in fields(Settings) if isinstance(field.default, int)}
    assert [name for name in sorted(numbers - COUNTED_IN_NOTHING) if not name.endswith(UNITS)] == []


def test_pages_name_only_settings_that_exist() -> None:
    known = {f"PIXCONNECT_{field.name.upper()}" for field in fields(Settings)}
    known |= {f"PIXCONNECT_{name.upper()}_FILE" for name in config.SECRETS}
    known |= {COMMAND_VARIABLE, *OF_CHAOS, *OF_CLUSTERS}
    for page in REFERENCE.parents[1].rglob("*.md"):
        if ".venv" not in page.parts:
            named = set(re.findall(r"PIXCONNECT_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))
            assert named <= known, f"{page.name} names settings that do not exist"
