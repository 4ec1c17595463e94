"""The rail that is an account at an institution, as far as receiving needs it: nothing is sent over it yet.

What came in is read by sweeps (``usecases/institutions``) and taken as reports, so this rail has none of its own; nobody there
waits for an acknowledgement.
"""

from __future__ import annotations

from collections.abc import Sequence

from pixconnect.adapters.rails.none import NoRail
from pixconnect.domain.institutions.account import ABILITIES
from pixconnect.domain.institutions.institution import Institution, InstitutionUnavailable
from pixconnect.domain.money.rail import Acknowledgement, RailUnavailable


class InstitutionRail(NoRail):
    abilities = ABILITIES

    def __init__(self, institution: Institution) -> None:
        super().__init__("nothing is sent over accounts at institutions yet")
        self._institution = institution

    async def acknowledge(self, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Nobody waits for it there: what is listed has settled."""

    async def check(self) -> None:
        try:
            await self._institution.read_balance()
        except InstitutionUnavailable as error:
            raise RailUnavailable(error.reason) from error
