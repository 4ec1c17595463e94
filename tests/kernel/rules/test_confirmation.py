"""Names that belong to other channels."""

import pytest

from pixconnect.kernel.rules.proposal import names_another_door


@pytest.mark.parametrize(
    "name",
    [
        "console maria",
        "Client x",
        "  console",
        "c\u00adonsole maria",
        "\uff43onsole\u2003maria",
        "console\tmaria",
        "console-ana",
        "console_ana",
        "(console) ana",
        "c\u00f4nsole.ana",
        "client-7",
        "clients/7",
    ],
)
def test_a_name_of_the_command_line_reads_as_none_of_another_door(name: str) -> None:
    assert names_another_door(name)


@pytest.mark.parametrize("name", ["", "ana", "root@host", "ana console", "conso-ana"])
def test_other_names_are_taken(name: str) -> None:
    assert not names_another_door(name)
