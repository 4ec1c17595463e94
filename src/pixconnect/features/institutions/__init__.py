"""Accounts at institutions, over which live mode moves money."""

from typing import Final

from pixconnect.kernel.feature import Event, Feature, Verb

FEATURE: Final = Feature(
    ports=("features.institutions.opener:PORTS",),
    gauges=("features.institutions.service.monitoring:GAUGES",),
    accounts=("features.institutions.source:ACCOUNTS",),
    end_rules=("features.institutions.orders:END_RULES",),
    sealed_kinds=("features.institutions.service.open_accounts:SEALED_KINDS",),
    members=("features.institutions.worker:MEMBERS",),
    problems=("features.institutions.service.monitoring:PROBLEMS",),
    meters=("features.institutions.service.monitoring:METERS",),
    rules=(
        "features.institutions.day_checks:STATEMENT_LINES",
        "features.institutions.checks:INSTITUTIONS",
        "features.institutions.day_checks:ACCOUNTS",
    ),
    verbs=(
        Verb(*("operator", "database", "features.institutions.cli.database:app"), "Check the service's database."),
        Verb(
            *("operator", "institution", "features.institutions.cli.institution:app"),
            "Accounts at institutions, over which live mode moves money.",
        ),
        Verb("below holder", "succeed", "features.institutions.cli.succession:succeed"),
    ),
    chores=("features.institutions.service.monitoring:CHORES",),
    events=(
        Event(
            "transfer.in.completed",
            "transfer",
            "More is known about the payer of a payment to you: read its parties. No money moved, and its status "
            "did not change.",
            is_own=True,
            status="CONFIRMED",
        ),
        Event(
            "charge.diverged",
            "transfer",
            "A payment has settled at your institution that differs from its charge: it was late, of another "
            "amount, a second one, of a removed charge, or of one that was never opened. The money is yours.",
            is_own=True,
            status="CONFIRMED",
        ),
        Event(
            "transfer.out.waiting",
            "transfer",
            "A transfer of yours waits for a person: for an operator of this service, for approval at your "
            "institution, or for enough money there. Its parties show which one. At the institution it may take "
            "days; its amount stays reserved, and its status does not change.",
            is_own=True,
            status="PROCESSING",
        ),
    ),
    event_families=("kernel.rules.charge_payment:FAMILIES",),
    unfinished=("features.institutions.tables.pending_call:UNFINISHED",),
    text_columns="""
account_alarm,kind,none
account_alarm,observation ended_by,operator
answer_pattern,reason direction,none
answer_pattern,form,statement_line
answer_pattern,revoked_by,operator
give_back,state reason,none
institution_account,kind profile environment state base_url token_url authorities options receiving_sealed sending_sealed,none
institution_account,name tax_id account keys,account
institution_account,paused_because,operator
institution_callback,digest secret_sealed,none
institution_certificate,part,none
institution_day,source state,none
institution_day_file,name failure,none
institution_file,digest format,none
institution_file,name,operator
institution_item_part,item_id kind,none
institution_source,bank branch number account_type agreement,account
institution_source,confirmed_by,operator
institution_source,format,none
institution_webhook_before,key url,account
line_answer,item_id reason answer,none
own_investment,item_id direction,none
return_name,asked_as,none
waiting_order,order_name waits_for,none
""",
)
