"""Pages of ``docs/reference``, each written from what it is about; ``make docs`` writes them all."""
