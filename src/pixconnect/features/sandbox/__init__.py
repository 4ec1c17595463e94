"""The simulated network, its rail, its clock and its controls."""

from typing import Final

from pixconnect.kernel.feature import Feature, Verb

FEATURE: Final = Feature(
    verbs=tuple(
        Verb("integrator", name, f"features.sandbox.cli:{place}", f"Sandbox: {text}")
        for name, place, text in (
            ("trigger", "trigger", "make any event happen, for real."),
            ("pay", "pay", "pay a charge of yours from another institution."),
            ("receive", "receive", "send yourself money from another institution."),
            ("return", "give_back", "return a transfer as its receiver."),
            ("deposit", "deposit", "deposit play money into your account."),
            ("move", "move", "make your institution move money: a fee, a wire."),
            ("clock", "clock_app", "the time."),
            ("faults", "faults_app", "make the network misbehave."),
        )
    )
)
