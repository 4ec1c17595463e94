"""Webhook endpoints, deliveries and their signatures, redelivery, and the feed of events."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    origin_kinds=("endpoint",),
    members=("features.webhooks.worker.feed:MEMBERS",),
    event_facts=("features.webhooks.tables.delivery:EVENT_FACTS",),
    followers=("features.webhooks.service.endpoint:FOLLOWERS",),
    sealed_kinds=("features.webhooks.service.endpoint:SEALED_KINDS",),
    key_removals=("features.webhooks.service.endpoint:KEY_REMOVALS",),
    rules=("features.webhooks.checks:DELIVERIES",),
    verbs=(
        Verb(
            *("below operator", "endpoint", "features.webhooks.cli.endpoint_operator:app"), "Manage holders' webhook endpoints."
        ),
        Verb(
            *("integrator", "listen", "features.webhooks.cli.listen:listen"),
            "Print events as they come, and post them to a program on this machine.",
        ),
        Verb(*("integrator", "events", "features.webhooks.cli.events:app"), "List, show and resend events."),
        Verb(*("integrator", "endpoint", "features.webhooks.cli.endpoint:app"), "Where webhooks are posted."),
    ),
)
