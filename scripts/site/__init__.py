"""The documentation site: ``make site`` assembles its pages and has MkDocs build them into ``src/pixconnect/site``."""
