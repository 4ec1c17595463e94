"""The guide to institutions names every profile."""

import re
from pathlib import Path

from pixconnect.domain.profiles.profile import NAMES

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_guide_names_each_profile_that_an_account_may_have() -> None:
    guide = (DOCS / "guides" / "receive-at-an-institution.md").read_text(encoding="utf-8")
    kinds = re.findall(r"kind = \"efi\" +# or ([a-z, ]+), standard", guide)[0].split(", ")
    listed = re.findall(r"needs a `profile`: (.+)\.\n", guide)[0]
    assert set(re.findall("`([a-z0-9]+)`", listed)) == set(NAMES) - {"efi", *kinds}
