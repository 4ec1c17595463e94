"""The table of infractions, read by the names that institutions give them."""

from pixconnect.features.movements.tables import find_open_names
from support.service import Service


async def test_of_two_accounts_with_the_same_name_only_the_undecided_one_is_found(service: Service) -> None:
    """A name is unique on its account alone: another account's end is none of this one's."""
    # Written without their payments: only their names and states are read.
    rows = ", ".join(
        f"({number}, 1, {account}, '{name}', 1, 'E1', 100, 0, 'fraud', 'other', '{state}', now(), now(), now(), 0,"
        " now(), now())"
        for number, (account, name, state) in enumerate(
            (
                ("null", "I1", "answered"), ("1", "I1", "released"), ("2", "I1", "open"), ("null", "I2", "taken"),
                ("2", "I2", "open"), ("1", "I3", "open"),
            ),
            1,
        )
    )  # fmt: skip
    await service.execute_as_owner(
        "set search_path = pixconnect; set session_replication_role = replica;"
        "insert into infraction (id, holder_id, institution_id, name, transfer_id, end_to_end_id, amount_cents, taken_cents,"
        " reason, situation, state, opened_at, respond_by, reported_at, slot, created_at, modified_at)"
        f" values {rows}; set session_replication_role = origin"
    )
    async with service.context.pool.acquire() as connection:
        assert await find_open_names(connection, ["I1", "I2"]) == {(None, "I1"), (2, "I1"), (2, "I2")}
        assert await find_open_names(connection, []) == set()
