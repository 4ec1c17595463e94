"""How long a part of the worker waits for news."""

from pixconnect.worker.rest import Rest


def test_it_looks_less_and_less_often_while_nothing_is_found() -> None:
    rest = Rest(0.25, 1.0)
    found = (True, False, False, False, False, True, False)
    assert [rest.after(has_found=has_found) for has_found in found] == [0.25, 0.25, 0.5, 1.0, 1.0, 0.25, 0.25]
