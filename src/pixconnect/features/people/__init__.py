"""People's data: export, erasure, retention."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    verbs=(Verb(*("operator", "person", "features.people.cli:app"), "Personal data, for answering people's requests."),)
)
