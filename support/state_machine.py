"""Run a state machine on a real service, where each example continues after the one before."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run_examples(machine: type[RuleBasedStateMachine], examples_count: int, steps_count: int, *, is_drawn_anew: bool) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples_count,
            stateful_step_count=steps_count,
            deadline=None,
            derandomize=not is_drawn_anew,
            database=None,
            phases=[Phase.generate],  # real processes: no two runs are the same
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        ),
    )
