"""What proves the books: runs of rules, chains, cases."""

from typing import Final

from pixconnect.feature import Feature, Verb

FEATURE: Final = Feature(
    problems=("usecases.proof.figures:PROBLEMS",),
    meters=("usecases.proof.figures:METERS",),
    rules=(
        "store.proof.chain:CHAIN",
        "store.proof.audit:AUDIT",
        "store.proof.chain:AUDIT_CHAIN",
        "store.proof.guards:GUARDS",
    ),
    pages=("console.audit_trail:PROOF_ROUTES",),
    menu=("console.audit_trail:MENU",),
    overview=("console.audit_trail:OVERVIEW",),
    verbs=(
        Verb(
            *("operator", "case", "cli.operator.proof.case:app"),
            "Show and end differences between the books and the institution or rail.",
        ),
        Verb("operator", "verify", "cli.operator.proof.verify:app", "Prove the books, and print the faults."),
    ),
    chores=("usecases.proof.chain:CHORES", "usecases.proof.case:CHORES"),
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
