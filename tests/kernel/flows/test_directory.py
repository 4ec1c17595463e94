"""Our own holders in the directory."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from pixconnect.kernel.flows import holder
from pixconnect.kernel.flows.context import Context
from pixconnect.kernel.tables import holder as holder_store
from support import identity
from support.operators import as_operator


async def test_keys_that_are_looked_up_at_once_are_one_query(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    queries: list[set[str]] = []
    find = holder_store.find_key_owners

    async def note(pool: Any, keys: list[str]) -> Mapping[str, int]:
        queries.append(set(keys))
        return await find(pool, keys)

    owner = await identity.make_holder(context)
    keys = ["nobody@example.com", "ours@example.com"]
    await holder.add_pix_key(as_operator(context), owner.id, "EMAIL", keys[1])
    monkeypatch.setattr(holder_store, "find_key_owners", note)
    found = await asyncio.gather(*(context.directory.find_owner(key) for key in keys * 2))
    assert found == [None, owner.id] * 2
    assert queries == [set(keys)]
