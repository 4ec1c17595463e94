"""Who asks, where holders are in several cells: each cell proves its own tokens and clients by its own keys and tables.

::

    a token ──── names its holder, whose cell verifies it ── a token that names another's is refused there: unknown key
    a client ─── its id leads to a cell, and all are asked ─ that cell compares the secret, and counts failures
    the keys ─── of all cells are published as one set

Where there is one cell, its parts are asked and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from pixconnect.domain.frame import cell, errors
from pixconnect.domain.frame.secret_box import SealBroken
from pixconnect.domain.identity.access import AccessToken, Caller
from pixconnect.foundation import jose
from pixconnect.foundation.bounded_cache import BoundedCache
from pixconnect.usecases.frame.cells import ByCell
from pixconnect.usecases.identity.client_cells import ClientCells
from pixconnect.usecases.identity.keyring import Keyring
from pixconnect.usecases.identity.token import CACHED_TOKENS_MAX, SCHEME, TOKEN_LENGTH_MAX, TokenVerifier
from pixconnect.usecases.identity.token_issuer import TokenIssuer, TokenRequest

_CLIENTS_MAX: Final = 4096


class CellVerifier:
    """Verifies the ``Authorization`` header of every request in this process, by the cell of the holder that it names."""

    def __init__(self, verifiers: ByCell[TokenVerifier]) -> None:
        self._verifiers = verifiers
        self._home = verifiers.home
        # Of holders elsewhere only, so it is empty where there is one cell.
        self._elsewhere = BoundedCache[bytes, TokenVerifier](CACHED_TOKENS_MAX)

    def recall(self, authorization: bytes) -> Caller | None:
        """The caller of a header that was verified before, without waiting; ``None`` where only ``verify`` can tell."""
        return self._elsewhere.get(authorization, self._home).recall(authorization)

    def recall_party(self, authorization: bytes) -> int | None:
        """Whose header it was when it was last verified: it lets nobody in."""
        return self._elsewhere.get(authorization, self._home).recall_party(authorization)

    async def verify(self, authorization: bytes | None) -> Caller:
        """As ``TokenVerifier.verify``; raises ``ServiceUnavailable`` too for holders of a cell that is away."""
        # What the home cell has verified once is its own.
        if authorization is None or self._home.recall_party(authorization) is not None:
            return await self._home.verify(authorization)
        number = _read_cell(authorization)
        # What no cell can have signed the home cell's verifier refuses.
        if self._verifiers.is_missing(number):
            number = cell.HOME
        verifier = self._verifiers.at(number)
        caller = await verifier.verify(authorization)
        if number != cell.HOME:
            self._elsewhere.keep(authorization, verifier)
        return caller


def _read_cell(authorization: bytes) -> int:
    """The cell of the holder that a token names, which proves nothing; the home cell for whatever is no token of ours."""
    token = authorization[len(SCHEME) :]
    # The home cell's verifier says what is wrong with it.
    if not authorization.startswith(SCHEME) or len(token) > TOKEN_LENGTH_MAX:
        return cell.HOME
    claims = jose.find_unproved_claims(token)
    number = cell.HOME if claims is None else cell.cell_of_id(int(claims.holder_id))
    return number if number < cell.CELLS_MAX else cell.HOME


class CellIssuer:
    """Issues tokens: whose client it is finds out the process, and the client's cell does the rest."""

    def __init__(self, issuers: ByCell[TokenIssuer]) -> None:
        self._issuers = issuers
        self._clients = ClientCells(issuers, TokenIssuer.check_known, issuers.home.now_s)
        self._known = BoundedCache[str, int](_CLIENTS_MAX)
        """The cell of a client, by its id."""

    async def login(self, request: TokenRequest) -> AccessToken:
        """As ``TokenIssuer.login``; an unknown client is refused by the home cell, which counts the failure."""
        issuers = self._issuers
        issuer = issuers.home if issuers.is_alone else await self._find(request)
        return await issuer.login(request)

    def refuse_limited(self, limited_as: str) -> None:
        """As ``TokenIssuer.refuse_limited``."""
        self._issuers.home.refuse_limited(limited_as)

    async def _find(self, request: TokenRequest) -> TokenIssuer:
        client_id = request.client_id or ""
        known = self._known.recall(client_id)
        if known is not None:
            return self._issuers.at(known)
        # A flood of guesses from one address costs no look.
        self.refuse_limited(request.limited_as)
        found = await self._clients.find(client_id, request.address)
        if found is None:
            return self._issuers.home
        # A client stays in its cell, as its holder does.
        self._known.keep(client_id, found.cell)
        return found


class CellKeys:
    """The public keys of all cells as one set: whoever verifies need not know which cell has signed."""

    def __init__(self, keyrings: ByCell[Keyring]) -> None:
        self._keyrings = keyrings

    async def reload_if_older(self) -> None:
        """Read them unless that was done just now; of a cell that gives no answer those that were read last are published."""
        keyrings = self._keyrings
        await asyncio.gather(keyrings.home.reload_if_older(), *(_reload(keyring) for _, keyring in keyrings.others()))

    def public_key_document(self) -> Mapping[str, object]:
        """The home cell's current key, and every key still needed to verify something."""
        return {**self._keyrings.home.public_key_document(), **self.key_set()}

    def key_set(self) -> Mapping[str, object]:
        """The published keys as a bare JWK set (RFC 7517)."""
        return {"keys": [key for keyring in self._keyrings for key in keyring.key_set()["keys"]]}

    def certified_key_set(self) -> Mapping[str, object]:
        """The same set with certificate chains."""
        return {"keys": [key for keyring in self._keyrings for key in keyring.certified_key_set()["keys"]]}


async def _reload(keyring: Keyring) -> None:
    try:
        await keyring.reload_if_older()
    except (errors.ServiceUnavailable, SealBroken):
        # The process that reads them has said so: the others' keys are needed all the same.
        return
