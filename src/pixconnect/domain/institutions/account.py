"""An account at an institution, as its operator describes it in a file, and the rules of that file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

Kind = Literal["efi", "inter", "woovi", "sicoob", "standard"]
Environment = Literal["production", "homologation", "counterpart"]
"""Of an installation and all its accounts: the institutions' own hosts, those of their test environments, or anything else."""
AccountState = Literal["active", "paused", "closed"]


class Credential(Struct, frozen=True, kw_only=True):
    """What the institution knows us by. The certificates are PEM; empty where it wants none."""

    client_id: str = ""
    client_secret: str = ""
    certificate: str = ""
    private_key: str = ""

    def __repr__(self) -> str:
        return f"Credential(client_id={self.client_id!r})"


class InstitutionAccount(Struct, frozen=True, kw_only=True):
    """One account at an institution; ``id`` is fixed into all that happens on it."""

    id: int
    name: str
    kind: Kind
    profile: str
    """The institution's traits (``domain/profiles``)."""
    environment: Environment
    state: AccountState
    tax_id: str
    """CPF or CNPJ of its owner."""
    base_url: str
    token_url: str
    """Empty is the profile's path below ``base_url``."""
    authorities: str
    """PEM of who signs the institution's certificate; empty trusts the system's."""
    account: str
    """Its number there, where the institution wants it said."""
    keys: Sequence[str]
    poll_s: int
    options: Mapping[str, str | bool | int]
    house_id: int | None
    """The holder to whom belongs what belongs to nobody else there."""
    created_at: datetime
