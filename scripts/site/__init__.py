"""The documentation site: ``make site`` assembles its pages, and MkDocs builds them into ``src/pixconnect/site``."""
