"""``pixconnect block``: money that institutions have blocked."""

from typing import Annotated, Final

from cyclopts import App, Parameter
from cyclopts.validators import Number

from pixconnect.doors.cli import operating, output
from pixconnect.doors.cli.integrator.recipes import Chosen, Mark, Recipe, make_charge
from pixconnect.doors.cli.output import Json
from pixconnect.doors.cli.whole_number import WHOLE_NUMBER
from pixconnect.features.movements.blocks import Block
from pixconnect.features.movements.service import browse_blocks
from pixconnect.kernel.flows.context import Operator
from pixconnect.kernel.rules.block_report import BlockKind

app = App(name="block", help="Money that institutions keep holders from spending.")

OfHolder = Annotated[int | None, WHOLE_NUMBER, Parameter(validator=Number(gte=1, lt=2**53))]


@app.command(name="list")
def list_(*, kind: BlockKind | None = None, holder_id: OfHolder = None, json: Json = False) -> None:
    """Print open blocks, holder by holder. Of a court's order only the amount is shown.

    Args:
        kind: Only blocks of this kind: `med` is a contested Pix, `precautionary` a suspect credit, `statement_line` a debit
            that waits.
        holder_id: Only this holder's.
    """
    kinds = () if kind is None else (kind,)
    found = operating.run(_list_all, holder_id, kinds)
    output.show_list("blocks", [_shown(block) for block in found], as_json=json)


async def _list_all(context: Operator, holder_id: int | None, kinds: tuple[BlockKind, ...]) -> list[Block]:
    page = await browse_blocks(context, holder_id, kinds)
    found = [*page.items]
    while page.next is not None:
        page = await browse_blocks(context, holder_id, kinds, page.next)
        found += page.items
    return found


def _shown(block: Block) -> output.Shown:
    terms = {} if block.is_secret else output.pick(block, "reference respond_by until")
    return output.pick(block, "holder_id kind wanted_cents held_cents covered_cents") | terms


def _hold(chosen: Chosen) -> Mark:
    # It stays held: after 72 hours of the sandbox's clock it is released, or before by hand.
    held = chosen.client.sandbox.pay(make_charge(chosen).emvqrcps, payer=chosen.payer, suspect="release")
    return "end_to_end_id", held.end_to_end_id


RECIPES: Final = (Recipe("transfer.in.held", _hold),)
