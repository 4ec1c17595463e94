"""Chaos: a whole installation under load, in which whatever can fail does, for minutes or hours, and a judge of what was seen.

::

    schedule ──► breaking ──► installation ◄── load ──► book (a file) ──► history: what contradicts what
    (from a seed)   kills, stops, cuts,         callers                       ▲
                    disk, clock, rail                        tables in the end ┘
"""
