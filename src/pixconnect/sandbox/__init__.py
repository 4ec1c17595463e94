"""The simulated network: a settlement system (SPI), a key directory (DICT) and the people outside."""
