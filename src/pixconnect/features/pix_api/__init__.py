"""The central bank's Pix API."""

from typing import Final

from pixconnect.kernel.feature import Feature, Scope, Verb

FEATURE: Final = Feature(
    verbs=(Verb(*("below operator", "charge", "features.pix_api.cli:app"), "The charges of holders."),),
    doors=("features.pix_api.api.operations:DOORS", "features.pix_api.api.webhook:DOORS"),
    deadlines=("features.pix_api.tables:DEADLINES",),
    delivery_formats=("features.pix_api.service.event_callback:DELIVERY_FORMATS",),
    scopes=(
        Scope("cob.read", "Pix API: reading and listing immediate charges", is_standard=True),
        Scope("cob.write", "Pix API: making, changing and removing immediate charges", is_standard=True),
        Scope("cobv.read", "Pix API: reading and listing charges with a due date", is_standard=True),
        Scope("cobv.write", "Pix API: making, changing and removing charges with a due date", is_standard=True),
        Scope("pix.read", "Pix API: reading and listing received Pix and their refunds", is_standard=True),
        Scope("pix.write", "Pix API: returning a received Pix", is_standard=True),
        Scope("payloadlocation.read", "Pix API: reading and listing locations", is_standard=True),
        Scope("payloadlocation.write", "Pix API: making locations and freeing them", is_standard=True),
    ),
)
