"""Rules and records of pix api."""
