"""Proof of the books: runs of rules, and chains."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    checks=("features.proof.service.verify:CHECKS",),
    meters=("features.proof.service.verify:METERS",),
    rules=(
        "features.proof.tables.chain:CHAIN",
        "features.proof.tables.audit:AUDIT",
        "features.proof.tables.chain:AUDIT_CHAIN",
        "features.proof.tables.shape:GUARDS",
    ),
    verbs=(Verb("operator", "verify", "features.proof.cli:app", "Prove the books, and print the faults."),),
    chores=("features.proof.service.verify:CHORES",),
    text_columns="""
audit_chain,digest salt person_digest head,none
audit_chain_state,bound_writers,none
entry_chain,digests person_digests head,none
proof_finding,rule ids expected found state,report
proof_run,extent state operator looked,operator
""",
)
