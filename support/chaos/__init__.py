"""Chaos: a whole installation under load and with every kind of fault, for minutes or hours, and a judge.

::

    schedule ──► breaking ──► installation ◄── load ──► book (a file) ──► history: contradictions
    (from a seed)   kills, stops, cuts,         callers                       ▲
                    disk, clock, rail                        tables in the end ┘
"""
