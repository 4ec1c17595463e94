"""A rail with its own ids for orders, in front of the sandbox, which keeps ours.

Processes use it if they are started with the abilities of a rail that does not keep our ids.

The order's amount modulo three selects when the id is returned (``EARLY``, ``WITH_THE_END``, ``AFTER_THE_END``), so a
test can choose. Returns refer to their original by the network's id.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from pixconnect.features.sandbox import rail as rail_sandbox
from pixconnect.features.sandbox.rail import SandboxConnection, SandboxRail
from pixconnect.kernel.rules import rail as rails
from support.records import ISPB

EARLY: Final = 0
WITH_THE_END: Final = 1
AFTER_THE_END: Final = 2

NETWORK_ISPB: Final = "99999099"
_LATE_REPORT: Final = "late "
_WAIT_MAX_S: Final = 0.2


def network_name(name: str) -> str:
    """The network's id of an order; other ids are unchanged."""
    return f"{name[0]}{NETWORK_ISPB}{name[9:]}" if name[1:9] == ISPB else name


class RenamingRail(SandboxRail):
    def __init__(self, connection: SandboxConnection) -> None:
        super().__init__(connection)
        self._told_after_end: set[str] = set()
        self._ended: dict[str, rails.SettledReport | rails.RejectedReport] = {}
        self._late: dict[str, rails.Report] = {}

    async def submit(self, orders: Sequence[rails.Order]) -> list[rails.SubmitAnswer]:
        named = [(order.end_to_end_id, order.amount_cents) for order in orders]
        return self._tell(named, await super().submit(orders))

    async def submit_refunds(self, orders: Sequence[rails.RefundOrder]) -> list[rails.SubmitAnswer]:
        named = [(order.return_id, order.amount_cents) for order in orders]
        return self._tell(named, await super().submit_refunds(orders))

    def _tell(self, named: Sequence[tuple[str, int]], answers: Sequence[rails.SubmitAnswer]) -> list[rails.SubmitAnswer]:
        self._told_after_end |= {name for name, amount_cents in named if amount_cents % 3 == AFTER_THE_END}
        return [
            rails.Taken(network_id=network_name(name)) if answer == rails.Taken() and amount_cents % 3 == EARLY else answer
            for (name, amount_cents), answer in zip(named, answers, strict=True)
        ]

    async def query(self, ids: Sequence[str]) -> list[rails.QueryAnswer]:
        answers = await super().query(ids)
        return [
            structs.replace(answer, network_id=network_name(name)) if hasattr(answer, "network_id") else answer
            for name, answer in zip(ids, answers, strict=True)
        ]

    async def reports(self, wait_s: float) -> list[rails.Report]:
        # A late id is only answered from here, not by the sandbox.
        reported = await super().reports(min(wait_s, _WAIT_MAX_S))
        return [*map(self._rename, reported), *self._late.values()]

    def _rename(self, report: rails.Report) -> rails.Report:
        match report:
            case rails.ReturnReport(original_end_to_end_id=name):
                return structs.replace(report, original_end_to_end_id=network_name(name))
            case rails.SettledReport(id=name) | rails.RejectedReport(id=name) if name in self._told_after_end:
                self._ended[report.report_id] = report
                return report
            case rails.SettledReport(id=name) | rails.RejectedReport(id=name):
                return structs.replace(report, network_id=network_name(name))
            case _:
                return report

    async def acknowledge(self, acknowledgements: Sequence[rails.Acknowledgement]) -> None:
        ids = {acknowledgement.report_id for acknowledgement in acknowledgements}
        await super().acknowledge([each for each in acknowledgements if not each.report_id.startswith(_LATE_REPORT)])
        for report_id in ids:
            self._late.pop(report_id, None)
        for report_id in ids & self._ended.keys():
            ended = self._ended.pop(report_id)
            late_id = f"{_LATE_REPORT}{report_id}"
            self._late[late_id] = structs.replace(ended, report_id=late_id, network_id=network_name(ended.id))


def install() -> None:
    """Replace the sandbox's rail before the service is assembled, if that is set not to keep our ids.

    For a rail that cannot be asked by them see ``support.bare_rail``.
    """
    if not SandboxRail.abilities.keeps_our_id and SandboxRail.abilities.answers_by_our_id:
        rail_sandbox.SandboxRail = RenamingRail  # type: ignore[misc]
