"""What the service does on this machine, measured: ``bench/run.py`` says how to ask for it.

- ``catalogue``: the measures by name, with their options;
- ``measures``: what is measured; each file says at its head what it counts;
- ``harness``: a service of its own for each measure, and what its processes use;
- ``load``: who asks, who receives, and how events get there without anybody asking;
- ``profile``: where the microseconds of a life go, by process, statement and function;
- ``figures``: rows of results, kept in ``bench/results.json``;
- ``pages``: what is written of them in ``docs/reference``, by the run and by ``make docs``.
"""
