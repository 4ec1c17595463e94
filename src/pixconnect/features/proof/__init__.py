"""Proof of the books: runs of rules, chains, cases."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    checks=("features.proof.service.figures:CHECKS",),
    problems=("features.proof.service.figures:PROBLEMS",),
    meters=("features.proof.service.figures:METERS",),
    rules=(
        "features.proof.tables.chain:CHAIN",
        "features.proof.tables.audit:AUDIT",
        "features.proof.tables.chain:AUDIT_CHAIN",
        "features.proof.tables.shape:GUARDS",
    ),
    verbs=(
        Verb(
            *("operator", "case", "features.cases.cli:app"),
            "Show and end differences between the books and the institution or rail.",
        ),
        Verb("operator", "verify", "features.proof.cli:app", "Prove the books, and print the faults."),
    ),
    chores=("features.proof.service.verify:CHORES", "features.cases.service.case:CHORES"),
    text_columns="""
audit_chain,digest salt person_digest head,none
audit_chain_state,bound_writers,none
case_ending,evidence_name proposed_by confirmed_by,operator
case_ending,order_name kind said evidence_digest contrary_item_id,none
case_note,operator note,operator
entry_chain,digests person_digests head,none
kept_case,kind name ended_as,none
kept_case,said ended_by end_reason,operator
proof_finding,rule ids expected found state,report
proof_run,extent state operator looked,operator
""",
)
