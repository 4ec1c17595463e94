"""Lists of the central bank's API: instants in the displayed precision, pages, and errors."""

import pytest

from pixconnect.features.pix_api.api.frame import PAGE, PAGE_SIZE, make_span, read_interval, read_page
from pixconnect.features.pix_api.api.violations import Parameters, Violations
from pixconnect.platform.base.clock import format_instant

INICIO, FIM = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def read(**values: str) -> tuple[str, str, int, int]:
    violations = Violations("pix")
    parameters = Parameters(violations, {name.replace("__", "."): value for name, value in values.items()})
    interval, page = read_interval(parameters), read_page(parameters)
    violations.raise_if_any()
    span = make_span(interval, page)
    assert span.initial_at is not None
    assert span.final_at is not None
    return format_instant(span.initial_at)[11:], format_instant(span.final_at)[11:], span.page, span.page_size


@pytest.mark.parametrize(
    ("inicio", "fim", "expected"),
    [
        ("12:00:00Z", "12:00:00Z", ("12:00:00.000000Z", "12:00:00.000999Z")),
        ("12:00:00.123Z", "12:00:00.123Z", ("12:00:00.123000Z", "12:00:00.123999Z")),
        ("12:00:00.1230001Z", "12:00:00.123456Z", ("12:00:00.123000Z", "12:00:00.123999Z")),
        ("12:00:00.123001Z", "12:00:00.124Z", ("12:00:00.124000Z", "12:00:00.124999Z")),
        ("12:00:00.999999Z", "12:00:01Z", ("12:00:01.000000Z", "12:00:01.000999Z")),
        ("09:00:00-03:00", "13:00:00+01:00", ("12:00:00.000000Z", "12:00:00.000999Z")),
    ],
)
def test_instants_count_as_they_are_shown(inicio: str, fim: str, expected: tuple[str, str]) -> None:
    assert read(inicio=f"2026-01-01T{inicio}", fim=f"2026-01-01T{fim}")[:2] == expected


@pytest.mark.parametrize("instant", ["0001-01-01T00:00:00.0001Z", "9999-12-31T23:59:59.9999Z"])
def test_the_first_and_the_last_instant_that_can_be_written_are_taken(instant: str) -> None:
    assert read(inicio=instant, fim=instant)


@pytest.mark.parametrize(
    ("sent", "names"),
    [
        ({}, ["inicio", "fim"]),
        ({"inicio": FIM, "fim": INICIO}, ["fim"]),
        ({"inicio": INICIO, "fim": FIM, PAGE: "-1", PAGE_SIZE: "0"}, [PAGE, PAGE_SIZE]),
        ({"inicio": "ontem", "fim": FIM, PAGE_SIZE: "1001"}, ["inicio", PAGE_SIZE]),
        ({"inicio": INICIO, "fim": "2026-02-30T00:00:00Z", PAGE: "1.0"}, ["fim", PAGE]),
    ],
)
def test_every_violation_is_a_row(sent: dict[str, str], names: list[str]) -> None:
    violations = Violations("pix")
    parameters = Parameters(violations, sent)
    read_interval(parameters)
    read_page(parameters)
    assert [(row.property, row.value) for row in violations.rows] == [(name, sent.get(name)) for name in names]


@pytest.mark.parametrize(("total", "size", "pages"), [(0, 100, 1), (1, 100, 1), (100, 100, 1), (101, 100, 2), (5, 1, 5)])
def test_there_is_always_a_page(total: int, size: int, pages: int) -> None:
    page = read_page(Parameters(Violations("pix"), {PAGE_SIZE: str(size), PAGE: "7"})).paginate(total)
    shown = (page.pagina_atual, page.itens_por_pagina, page.quantidade_de_paginas, page.quantidade_total_de_itens)
    assert shown == (7, size, pages, total)


def test_a_page_is_the_first_of_a_hundred_if_nothing_is_said() -> None:
    assert read(inicio=INICIO, fim=FIM)[2:] == (1, 100)
    assert read(inicio=INICIO, fim=FIM, paginacao__paginaAtual="3", paginacao__itensPorPagina="1000")[2:] == (4, 1000)
