"""Our own holders as others see them: who owns a Pix key, and a holder's account as one side of a transfer.

Keys are added and never removed, and the details kept here of a holder never change, so the caches need no invalidation.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct, structs

from pixconnect.domain import errors
from pixconnect.domain.holder import Holder, Party
from pixconnect.domain.pix_key import PixKey
from pixconnect.foundation.pool import Pool
from pixconnect.store import holder as holder_store

KEPT_MAX = 20_000
"""Entries of each cache: of keys, and of accounts."""


class OwnAccount(Struct, frozen=True, kw_only=True):
    holder_id: int
    party: Party
    """The account as one side of a transfer, without a key."""
    city: str
    """As printed in QR codes."""


class HolderDirectory:
    """Our own keys and accounts, cached once found."""

    def __init__(self, pool: Pool, ispb: str, institution_name: str) -> None:
        self._pool = pool
        self._ispb = ispb
        self._institution_name = institution_name
        self._owners: dict[str, int] = {}
        self._accounts: dict[int, OwnAccount] = {}

    async def find_owner(self, key: str) -> int | None:
        """The holder of a normalised key, or ``None`` if it is none of ours."""
        owner = self._owners.get(key)
        # Only what was found is cached: a key that is not ours today may be added in a moment.
        if owner is None:
            owner = (await holder_store.find_key_owners(self._pool, [key])).get(key)
            if owner is not None:
                _keep(self._owners, key, owner)
        return owner

    async def find_account(self, branch: str, account_number: str) -> OwnAccount | None:
        """The account of ours with this number, or ``None``."""
        holder = await holder_store.find_by_account(self._pool, branch, account_number)
        return None if holder is None else self._open(holder)

    async def read_account(self, holder_id: int) -> OwnAccount:
        account = self._accounts.get(holder_id)
        if account is None:
            holder = await holder_store.find(self._pool, holder_id)
            if holder is None:
                raise errors.InvariantBroken(f"there is no holder {holder_id}")
            account = self._open(holder)
            _keep(self._accounts, holder_id, account)
        return account

    def _open(self, holder: Holder) -> OwnAccount:
        party = Party(
            account_number=holder.account_number,
            account_type=holder.account_type,
            bank=self._institution_name,
            branch=holder.branch,
            ispb=self._ispb,
            name=holder.name,
            tax_id=holder.tax_id,
        )
        return OwnAccount(holder_id=holder.id, party=party, city=holder.city)


def with_key(party: Party, key: PixKey | None) -> Party:
    if key is None:
        return party
    return structs.replace(party, key=key.key, key_type=key.key_type)


Key = TypeVar("Key")
Kept = TypeVar("Kept")


def _keep(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    # A dict keeps the order of insertion, so its first entry is the oldest.
    if len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
