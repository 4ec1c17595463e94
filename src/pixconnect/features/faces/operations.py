"""All faces: their tables, and the served operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from pixconnect.doors.api.operation import AnyOperation, Door, RefusalForm
from pixconnect.features.faces.efi import operations as efi
from pixconnect.features.faces.frame import (
    Face,
    FaceOperation,
    list_routes_of,
    list_rows_of_profile,
    open_faces,
    split_path,
)
from pixconnect.features.faces.inter import operations as inter
from pixconnect.features.faces.refusals import make_face_form
from pixconnect.features.faces.sicoob import operations as sicoob
from pixconnect.features.faces.woovi import operations as woovi
from pixconnect.features.institutions.profiles.profile import NAMES

_WITH_OWN: Final[Mapping[str, Callable[[Face], Sequence[FaceOperation]]]] = {
    "efi": efi.list_rows,
    "inter": inter.list_inter_rows,
    "sicoob": sicoob.list_sicoob_rows,
    "woovi": woovi.list_woovi_rows,
}
TABLES: Final = {**_WITH_OWN, **{name: list_rows_of_profile for name in NAMES if name not in _WITH_OWN}}
"""By name; an institution with only a variant of the standard has a profile and no code."""


@cache
def _all_faces() -> Mapping[str, Face]:
    return {face.name: face for name in TABLES for face in open_faces(name)}


def list_face_routes() -> tuple[AnyOperation, ...]:
    return tuple(
        route for face in _all_faces().values() for route in list_routes_of(face, TABLES[face.profile.name](face))
    )


def find_face_form(raw_path: bytes) -> RefusalForm | None:
    """Find the form of refusals for unknown paths below a face; ``None`` for other paths."""
    name, path = split_path(raw_path)
    face = _all_faces().get(name)
    if face is None:
        return None
    groups = face.profile.errors.items()
    found = next((group for group, traits in groups if traits.below and path.startswith(traits.below)), "general")
    return make_face_form(face.profile, found)


DOORS: Final = (Door(list_routes=list_face_routes, find_form=find_face_form, is_for_sandbox=True),)
