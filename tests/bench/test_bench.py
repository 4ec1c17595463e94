"""The benchmarks start, and figures name the commands that measured them."""

import os
import subprocess
import sys
from pathlib import Path

from bench.against import interval, other_tree
from bench.catalogue import MEANINGS, MEASURES, command_of, options_of
from bench.measures.hostile import ask_balance
from support.institution import http, serving

ROOT = Path(__file__).parents[2]


def bench(*options: str) -> str:
    command = [sys.executable, "bench/run.py", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300).stdout


def test_every_measure_can_be_asked_for_by_its_name() -> None:
    said = bench("--help")
    assert "transfer_hot" in said
    assert "fairness" in said


def test_make_bench_is_brief_and_a_single_measure_is_not() -> None:
    assert options_of("charge", {}, is_quick=True)["seconds"] < options_of("charge", {}, is_quick=False)["seconds"]
    assert options_of("charge", {"seconds": 3.0, "rounds": None, "requests": 5}, is_quick=False) == {
        "seconds": 3.0,
        "rounds": 3,
    }


def test_what_a_measure_reads_can_be_given() -> None:
    for name, measure in MEASURES.items():
        assert set(measure.quick or {}) <= set(measure.reads) <= set(MEANINGS), name


def test_the_command_kept_with_a_figure_measures_it_again() -> None:
    options = options_of("transfer_hot", {"connections": [16, 64]}, is_quick=True)
    assert command_of("transfer_hot", options) == (
        "bench/run.py --only transfer_hot --seconds 4 --rounds 2 --connections 16 64"
    )
    assert command_of("rest", {}) == "bench/run.py --only rest"
    assert command_of("fairness", {"kinds": ()}) == "bench/run.py --only fairness"


def test_an_interval_leaves_out_as_many_ratios_as_the_sign_test_allows() -> None:
    eleven = [1.0, 1.1, 0.9, 1.2, 0.8, 1.3, 0.7, 1.4, 0.6, 1.5, 0.5]
    assert interval(eleven) == (0.6, 1.0, 1.4)  # 2 * (1 + 11) / 2 ** 11 is 1.2 %; with one more at each end it is 6.5 %
    assert interval([1.2, 1.0, 1.1]) == (1.0, 1.1, 1.2)


def test_the_other_commit_runs_from_a_tree_of_its_own_that_is_gone_afterwards() -> None:
    with other_tree("HEAD") as (python, path):
        said = subprocess.run(
            [python, "-c", "import pixconnect; print(pixconnect.__file__)"],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        tree = Path(path.partition(os.pathsep)[0])
        assert said.strip() == str(tree / "pixconnect" / "__init__.py")
    assert not tree.exists()


async def test_a_victim_that_is_refused_is_counted_and_ends_no_measure() -> None:
    refusal = http(b"", 503)
    async with serving({"/v1/connect/ledger/balance": refusal}) as (port, _):
        took_s, refused_count = await ask_balance(f"http://127.0.0.1:{port}", "token", seconds=0.1)
    assert len(took_s) == refused_count > 0
