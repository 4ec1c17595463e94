"""Code, SQL and settings agree with the register of the arrangement's rules."""

import re
from pathlib import Path

from pixconnect.kernel.baseline import read_service_steps
from pixconnect.kernel.register import ARRANGEMENT

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pixconnect"


def test_what_binds_holders_is_read_from_the_register() -> None:
    texts = [text for path in SOURCE.rglob("*.py") for text in re.findall(r'"([a-z_{}]+)"', path.read_text("utf-8"))]
    texts += [text.replace("{kind}", kind) for text in texts for kind in ("person", "firm")]
    enforced = {
        name
        for name, rows in ARRANGEMENT.rows.items()
        if rows[-1].binds == "holder" and rows[-1].unit not in ("duty", "lifted")
    }
    assert enforced <= set(texts)


def test_what_sql_says_of_the_arrangement_is_what_the_register_says() -> None:
    """They have no access to it: a further row of a rule shows here where an instant must decide."""
    schema = read_service_steps().baseline.sql
    rule = (SOURCE / "features" / "proof" / "tables" / "charges.py").read_text("utf-8")
    window, valid = ARRANGEMENT.find_constant("name_window"), ARRANGEMENT.find_constant("valid_after_due")
    assert re.findall(r"called_at \+ '(\d+):00:00'::interval", schema) == [str(window.read_value())]
    assert re.findall(r"'valid_days'\)::int, (\d+)\)", rule) == [str(valid.read_value())]
