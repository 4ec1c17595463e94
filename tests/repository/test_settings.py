"""Every setting is named with its unit, and pages name only those that exist."""

import re
from dataclasses import fields

from pixconnect.platform import config
from pixconnect.platform.config import Settings
from pixconnect_client.testing.service import COMMAND_VARIABLE
from scripts.write_pages import REFERENCE

# Only `make` reads them.
OF_CHAOS = {f"PIXCONNECT_CHAOS_{name}" for name in ("SEED", "SEEDS", "MINUTES", "DEFECT", "THERE")}

OF_CLUSTERS = {f"PIXCONNECT_HA_{name}" for name in ("HOME", "NETWORK")} | {
    f"PIXCONNECT_FAILOVER_{name}" for name in ("SEED", "ROUNDS", "KINDS", "WRITE")
}


def test_pages_name_only_settings_that_exist() -> None:
    known = {f"PIXCONNECT_{field.name.upper()}" for field in fields(Settings)}
    known |= {f"PIXCONNECT_{name.upper()}_FILE" for name in config.SECRETS}
    known |= {COMMAND_VARIABLE, *OF_CHAOS, *OF_CLUSTERS}
    for page in REFERENCE.parents[1].rglob("*.md"):
        if ".venv" not in page.parts:
            named = set(re.findall(r"PIXCONNECT_[A-Z_]*[A-Z]", page.read_text(encoding="utf-8")))
            assert named <= known, f"{page.name} names settings that do not exist"
