"""The other side of the rail: a simulated settlement system (SPI) and key directory (DICT)."""
