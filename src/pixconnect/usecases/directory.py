"""Who is who among our own holders: whose a key is, and what a holder's account looks like from outside.

Keys are added and never taken away, and what stands here of a holder never changes: so what was found once can be kept.
"""

from __future__ import annotations

from typing import TypeVar

from msgspec import Struct

from pixconnect.domain import errors
from pixconnect.domain.holder import Holder, Party
from pixconnect.domain.pix_key import PixKey
from pixconnect.foundation.pool import Pool
from pixconnect.store import holder as holder_store

KEPT_MAX = 20_000
"""Of keys, and of accounts, in memory."""


class OwnAccount(Struct, frozen=True, kw_only=True):
    """A holder's account, seen from outside.

    Attributes:
        holder_id: Whose.
        party: As one side of a transfer, without a key.
        city: As printed on QR codes.
    """

    holder_id: int
    party: Party
    city: str


class HolderDirectory:
    """Our own keys and accounts, kept in memory once found.

    Args:
        pool: Connections.
        ispb: Ours.
        institution_name: Ours.
    """

    def __init__(self, pool: Pool, ispb: str, institution_name: str) -> None:
        self._pool = pool
        self._ispb = ispb
        self._institution_name = institution_name
        self._owners: dict[str, int] = {}
        self._accounts: dict[int, OwnAccount] = {}

    async def find_owner(self, key: str) -> int | None:
        """The holder of a normalised key, or ``None`` if it is none of ours."""
        owner = self._owners.get(key)
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
        """The account of a holder of ours, who must exist."""
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
    """A party as found by a key."""
    if key is None:
        return party
    return Party(
        account_number=party.account_number,
        account_type=party.account_type,
        bank=party.bank,
        branch=party.branch,
        ispb=party.ispb,
        key=key.key,
        key_type=key.key_type,
        name=party.name,
        tax_id=party.tax_id,
    )


Key = TypeVar("Key")
Kept = TypeVar("Kept")


def _keep(kept: dict[Key, Kept], key: Key, value: Kept) -> None:
    """Keep one more, and drop the one kept longest where there are too many."""
    if len(kept) >= KEPT_MAX:
        del kept[next(iter(kept))]
    kept[key] = value
