"""Use cases of pix api."""
