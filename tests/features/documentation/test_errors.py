"""The errors that are documented for an operation exist."""

from pixconnect.assembly.operations import list_operations
from pixconnect.doors.api import envelope
from pixconnect.features.documentation.errors import RULES

OF_RULES = {code for code, status in envelope.STATUSES.items() if status == 422}


def test_the_rules_are_of_operations_that_exist_and_each_rule_is_of_one() -> None:
    assert RULES.keys() <= {row.id for row in list_operations(is_sandbox=True)}
    assert set().union(*RULES.values()) == OF_RULES
