"""``run`` as a verb with options; without any, ``main`` calls it directly."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from pixconnect.running import run as supervision


def run(
    *,
    face: Annotated[Sequence[str], Parameter(negative=())] = (),
    end_with_parent: Annotated[bool, Parameter(show=False)] = False,
) -> None:
    """Run everything on this machine until interrupted: PostgreSQL, the API, the worker and, unless live, the sandbox.

    Args:
        face: A face that gets its own listener, such as `efi` or `efi+homologation:8111`; repeat it for more.
    """
    supervision.run(face, end_with_parent=end_with_parent)
