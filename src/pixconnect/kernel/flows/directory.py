"""Our own holders as counterparties see them: owners of Pix keys, accounts as sides of a transfer, targets of QR codes.

A holder's details here never change, except for its address and, once, its account at an institution. Either change moves
``access_revision``, which empties the caches; code that moves money checks the account again under the balances' locks. Keys
can be removed, so the cache of owners is used only while our last read of the revision is less than a second old.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct, structs

from pixconnect.kernel.rules.access import IN_FORCE_AFTER_S
from pixconnect.kernel.rules.charge import Charge
from pixconnect.kernel.rules.holder import Holder, Party, PixKey
from pixconnect.kernel.rules.tax_id import Address
from pixconnect.kernel.tables import charge as charge_store
from pixconnect.kernel.tables import holder as holder_store
from pixconnect.platform.base import errors
from pixconnect.platform.bounded_cache import BoundedCache
from pixconnect.platform.flow.batches import Batches
from pixconnect.platform.pool import Pool

BATCH_MAX = 256  # keys, or locations, per query
KEPT_MAX = 20_000  # entries of each cache: of keys, and of accounts


class OwnAccount(Struct, frozen=True, kw_only=True):
    holder_id: int
    party: Party  # return the account as one side of a transfer, without a key
    city: str  # as printed in QR codes
    institution_id: int | None = None  # the account at an institution that has its money
    address: Address | None = None


class HolderDirectory:
    """Our own keys and accounts, cached once found."""

    def __init__(self, pool: Pool, ispb: str, institution_name: str, monotonic_s: Callable[[], float]) -> None:
        self._pool = pool
        self._monotonic_s = monotonic_s
        self._revision: int | None = None
        self._fresh_until_s = float("-inf")
        self.on_use: Callable[[], None] | None = None
        """Called for each query of a key's owner, so that the revision is read often enough."""
        self._ispb = ispb
        self._institution_name = institution_name
        self._owners = BoundedCache[str, int](KEPT_MAX)
        self._accounts = BoundedCache[int, OwnAccount](KEPT_MAX)
        self._batches = Batches(self._find_owners, BATCH_MAX)
        self._locations = Batches(self._find_served, BATCH_MAX)

    def note_revision(self, revision: int, looked_at_s: float) -> None:
        """Note that a read of the revision began at this instant of the process's clock."""
        if revision != self._revision:
            self._owners.clear()
            self._accounts.clear()
            self._revision = revision
        self._fresh_until_s = looked_at_s + IN_FORCE_AFTER_S

    def forget_all(self) -> None:
        """Empty the caches: the database is another one."""
        # New caches, so that late answers to earlier queries do not get into them.
        self._owners = BoundedCache[str, int](KEPT_MAX)
        self._accounts = BoundedCache[int, OwnAccount](KEPT_MAX)
        self._revision, self._fresh_until_s = None, float("-inf")

    async def find_owner(self, key: str) -> int | None:
        """Find the holder of a normalised key."""
        if self.on_use is not None:
            self.on_use()
        owner = self._owners.recall(key)
        if owner is not None and self._monotonic_s() < self._fresh_until_s:
            return owner
        revision, owners = self._revision, self._owners
        # A text that PostgreSQL cannot store fails alone, and not with its batch.
        owner = await self._batches.ask(key) if key.isprintable() else (await self._find_owners([key]))[0]
        # Only hits are cached: an unknown key may be added at any moment. An answer older than a known removal is not cached:
        # its key may be the removed one.
        if owner is not None and revision == self._revision:
            owners.keep(key, owner)
        return owner

    async def _find_owners(self, keys: Sequence[str]) -> list[int | None]:
        owners = await holder_store.find_key_owners(self._pool, list(set(keys)))
        return [owners.get(key) for key in keys]

    async def find_served(self, path: str) -> Charge | None:
        """Find the charge at one of our locations in its present state, of any holder; ``path`` has no prefix."""
        return await self._locations.ask(path)

    async def _find_served(self, paths: Sequence[str]) -> list[Charge | None]:
        charges = await charge_store.find_served(self._pool, paths)
        return [charges.get(path) for path in paths]

    async def find_account(self, branch: str, account_number: str) -> OwnAccount | None:
        holder = await holder_store.find_by_account(self._pool, branch, account_number)
        return None if holder is None else self._open(holder)

    async def read_account(self, holder_id: int) -> OwnAccount:
        account = self._accounts.recall(holder_id)
        return await self.read_account_anew(holder_id) if account is None else account

    async def read_account_anew(self, holder_id: int) -> OwnAccount:
        """Read the account from the database, and refresh the cache."""
        accounts = self._accounts
        holder = errors.require(await holder_store.find(self._pool, holder_id), f"there is no holder {holder_id}")
        account = self._open(holder)
        accounts.keep(holder_id, account)
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
        return OwnAccount(
            holder_id=holder.id, party=party, city=holder.city, institution_id=holder.institution_id, address=holder.address
        )


def with_key(party: Party, key: PixKey | None) -> Party:
    if key is None:
        return party
    return structs.replace(party, key=key.key, key_type=key.key_type)
