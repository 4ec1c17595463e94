"""What PostgreSQL's log says of statements is summed up by statement."""

from bench.harness.statement_costs import read_statements

LOG = """\
a line that began before
\t!\t9.000000 s user, 0.000000 s system, 9.000000 s elapsed
2026-11-21 03:12:18.258 UTC [732] LOG:  PARSE MESSAGE STATISTICS
2026-11-21 03:12:18.258 UTC [732] DETAIL:  ! system usage stats:
\t!\t0.000100 s user, 0.000020 s system, 0.000300 s elapsed
\t!\t[0.003424 s user, 0.009135 s system total]
2026-11-21 03:12:18.258 UTC [732] STATEMENT:  select holder_id
\t    from balance
2026-11-21 03:12:18.259 UTC [732] LOG:  EXECUTE MESSAGE STATISTICS
2026-11-21 03:12:18.259 UTC [732] DETAIL:  ! system usage stats:
\t!\t0.000040 s user, 0.000000 s system, 0.000050 s elapsed
2026-11-21 03:12:18.259 UTC [732] STATEMENT:  select holder_id
\t    from balance
2026-11-21 03:12:18.260 UTC [733] LOG:  EXECUTE MESSAGE STATISTICS
2026-11-21 03:12:18.260 UTC [733] DETAIL:  ! system usage stats:
\t!\t0.000060 s user, 0.000000 s system, 0.000050 s elapsed
2026-11-21 03:12:18.260 UTC [733] STATEMENT:  select  holder_id from balance
2026-11-21 03:12:18.261 UTC [732] LOG:  checkpoint starting: time
2026-11-21 03:12:18.262 UTC [732] LOG:  QUERY STATISTICS
2026-11-21 03:12:18.262 UTC [732] DETAIL:  ! system usage stats:
\t!\t0.000300 s user, 0.000100 s system, 0.001000 s elapsed
2026-11-21 03:12:18.262 UTC [732] STATEMENT:  COMMIT;
"""


def test_planning_and_running_are_told_apart_and_the_dearest_statement_comes_first() -> None:
    commit, select = read_statements(LOG.splitlines())
    assert (commit.text, commit.count, round(commit.planning_us), round(commit.running_us)) == ("COMMIT;", 1, 0, 400)
    assert (select.text, select.count) == ("select holder_id from balance", 2)
    assert (round(select.planning_us), round(select.running_us), round(select.in_all_us)) == (120, 100, 220)


def test_a_log_without_statistics_has_no_statements() -> None:
    assert (
        read_statements(["2026-11-21 03:12:18.261 UTC [732] LOG:  checkpoint starting: time", "STATEMENT: none"]) == []
    )
