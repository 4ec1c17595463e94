"""The machine and other servers behind ports: clock, name look-ups, outgoing HTTP, sealed secrets."""
