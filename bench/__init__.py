"""What the service does on this machine, measured: ``bench/run.py`` says how to ask for it.

- ``measures``: what is measured; each file says at its head what it counts;
- ``harness``: a service of its own for each measure, and what its processes use;
- ``load``: who asks, who receives, and how events get there without anybody asking;
- ``figures``: rows of results, kept in ``bench/results.json``; ``make docs`` makes a page of them.
"""
