"""Contested Pix: infractions, the holders' answers and the institutions' decisions."""

from typing import Final

from pixconnect.kernel.feature import Erasure, Event, Feature, Lookup, Scope, Verb

FEATURE: Final = Feature(
    report_takers=("features.contests.service.infraction:REPORT_TAKERS",),
    order_rules=("features.contests.service.infraction:ORDER_RULES",),
    deadlines=("features.contests.tables:DEADLINES",),
    members=("features.contests.service.defence:MEMBERS",),
    account_tasks=("features.contests.worker:ACCOUNT_TASKS",),
    sandbox_calls=("features.contests.network.calls:CALLS",),
    network_parts=("features.contests.network.infraction:PARTS",),
    refusals=("features.contests.rules.infraction:REFUSALS",),
    rules=("features.contests.checks:CONTESTS",),
    rule_parts=("features.contests.checks:PARTS",),
    recipes=("features.contests.cli:RECIPES",),
    pages=("features.contests.pages:ROUTES",),
    menu=("features.contests.pages:MENU",),
    overview=("features.contests.pages:OVERVIEW",),
    verbs=(Verb("integrator", "infraction", "features.contests.cli:app", "Answer contests of received Pix."),),
    scopes=(
        Scope("infraction.read", "reading and listing infractions: Pix that their payers contest", ("infraction",)),
        Scope("infraction.write", "answering an infraction"),
    ),
    sections=("features.contests.api:SECTIONS",),
    events=(
        Event(
            "infraction.opened",
            "infraction",
            "A payer contests a Pix that you received, and your institution judges it: you cannot spend the money"
            " that it has blocked. You can answer until `respond_by`, at `respond_to`.",
            "`POST /sandbox/v1/infractions` of a payment that you received",
            is_own=True,
            status="OPEN",
        ),
        Event(
            "infraction.answered",
            "infraction",
            "Your institution has received your answer to an infraction.",
            "the same, and `POST /v1/connect/infraction/id/{id}/defence`",
            is_own=True,
        ),
        Event(
            "infraction.taken",
            "infraction",
            "Your institution has decided for the payer, and returned as much as it could, by a refund of yours "
            "that it made. The rest remains claimed, and may be blocked from incoming money; each later part is "
            "announced again, with the sum of all in `taken`.",
            'the same, and `POST /sandbox/v1/infractions/{infractionId}/decide` with `{"decision": "take"}`',
            is_own=True,
        ),
        Event(
            "infraction.released",
            "infraction",
            "Your institution has decided for you: the blocked money is available again.",
            'the same with `{"decision": "release"}`',
            is_own=True,
        ),
        Event(
            "infraction.reminded",
            "infraction",
            "The time to answer an infraction ends soon, and you have not answered: see `respond_by`.",
            'the same, and `POST /sandbox/v1/clock` with `{"advance_s": 500000}`',
            is_own=True,
            status="OPEN",
        ),
    ),
    lookups=(Lookup("infraction", ("name",), "null, name, state, amount_cents, created_at", path="/infractions/{id}"),),
    event_families=("features.contests.rules.infraction:FAMILIES",),
    erasures=(Erasure("infraction", "contest"),),
    text_columns="""
infraction,name end_to_end_id txid charge_external_id,entry
infraction,reason situation state defence_state,none
infraction,words defence defence_refusal,contest
""",
)
