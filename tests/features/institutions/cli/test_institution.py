import json

import pytest

from pixconnect.features.institutions.cli.institution import show_permissions
from pixconnect.features.institutions.rules.institution import PermissionTried

TRIED = (
    PermissionTried(name="cob.read", is_given=True),
    PermissionTried(name="pix.send", is_given=False, explanation="the application\nlacks it"),
    PermissionTried(name="webhook", is_given=None),
)


def test_each_permission_is_one_line_with_a_tick(capsys: pytest.CaptureFixture[str]) -> None:
    show_permissions(TRIED, as_json=False)
    yes, no, unknown = capsys.readouterr().out.splitlines()
    assert (yes, unknown) == ("✓ yes      cob.read", "? unknown  webhook")
    assert no.startswith("✗ no       pix.send: the application")
    show_permissions(TRIED, as_json=True)
    assert json.loads(capsys.readouterr().out)["permissions"][:2] == [
        dict(permission="cob.read", given="yes"),
        dict(permission="pix.send", given="no", explanation="the application\nlacks it"),
    ]
