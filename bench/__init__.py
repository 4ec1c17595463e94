"""Benchmarks of the service on this machine; see ``bench/run.py``.

- ``catalogue``: the measures by name, with their options;
- ``measures``: the measures; the head of each file defines its figures;
- ``harness``: a separate service for each measure, and the resources of its processes;
- ``load``: load generators, receivers, and events without requests;
- ``profile``: CPU of a life by process, statement and function;
- ``figures``, ``pages``: the results in ``bench/results.json``, and their pages, which ``make docs`` writes too.
"""
