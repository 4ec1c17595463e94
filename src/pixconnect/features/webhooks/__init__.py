"""Webhook endpoints, deliveries and their signatures, redelivery, and the feed of events."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    members=("features.webhooks.worker.resumption:MEMBERS",),
    verbs=(
        Verb(
            *("integrator", "listen", "features.webhooks.cli.listen:listen"),
            "Print events as they come, and post them to a program on this machine.",
        ),
        Verb(*("integrator", "events", "features.webhooks.cli.events:app"), "List, show and resend events."),
        Verb(*("integrator", "endpoint", "features.webhooks.cli.endpoint:app"), "Where webhooks are posted."),
    ),
)
