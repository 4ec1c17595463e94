"""How a state machine of a real service is run: each example goes on where the one before it has ended."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_examples(
    machine: type[RuleBasedStateMachine], examples_count: int, steps_count: int, *, is_drawn_anew: bool
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples_count,
            stateful_step_count=steps_count,
            deadline=None,
            derandomize=not is_drawn_anew,
            database=None,
            phases=[Phase.generate],  # real processes: a run is never quite the same again
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
