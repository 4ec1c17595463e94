"""The errors that are documented for an operation exist."""

from pixconnect.api.docs.errors import RULES
from pixconnect.api.frame import envelope
from pixconnect.api.operations import list_operations

OF_RULES = {code for code, status in envelope.STATUSES.items() if status == 422}


def test_the_rules_are_of_operations_that_exist_and_each_rule_is_of_one() -> None:
    assert RULES.keys() <= {row.id for row in list_operations(is_sandbox=True)}
    assert set().union(*RULES.values()) == OF_RULES
