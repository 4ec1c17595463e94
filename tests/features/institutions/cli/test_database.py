"""``pixconnect database`` as an operator uses it."""

from support import postgres
from support.command_line import CommandLine
from support.postgres import Addresses


def test_the_first_verb_after_a_restore_sees_it_and_moves_ids(pixconnect: CommandLine, database: Addresses) -> None:
    assert pixconnect.json("database", "show")["losses_count"] == 0
    before = "update pixconnect.installation set tables_oid = tables_oid - 1, first_transfer_id = 0"
    postgres.execute(database.owner_url, before)
    assert pixconnect.json("database", "show")["losses_count"] == 1
    moved = "do $$ begin assert (select first_transfer_id > 512 from pixconnect.installation); end $$"
    postgres.execute(database.owner_url, moved)
