"""The simulated network, its rail, its clock and its controls."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    verbs=(
        Verb(*("integrator", "trigger", "features.sandbox.cli:trigger"), "Sandbox: make any event happen, for real."),
        Verb(
            *("integrator", "pay", "features.sandbox.cli:pay"),
            "Sandbox: pay a charge of yours from another institution.",
        ),
        Verb(
            *("integrator", "receive", "features.sandbox.cli:receive"),
            "Sandbox: send yourself money from another institution.",
        ),
        Verb(
            *("integrator", "return", "features.sandbox.cli:give_back"), "Sandbox: return a transfer as its receiver."
        ),
        Verb(
            *("integrator", "deposit", "features.sandbox.cli:deposit"), "Sandbox: deposit play money into your account."
        ),
        Verb(
            *("integrator", "move", "features.sandbox.cli:move"),
            "Sandbox: make your institution move money: a fee, a wire.",
        ),
        Verb(*("integrator", "clock", "features.sandbox.cli:clock_app"), "Sandbox: the time."),
        Verb(*("integrator", "faults", "features.sandbox.cli:faults_app"), "Sandbox: make the network misbehave."),
    )
)
