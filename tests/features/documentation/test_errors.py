"""Each error of a rule is documented for an operation."""

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api import envelope


def test_each_rule_is_of_an_operation() -> None:
    rules = {code for row in list_operations(is_sandbox=True) for code in row.rules}
    assert rules == {code for code, status in envelope.list_statuses().items() if status == 422}
