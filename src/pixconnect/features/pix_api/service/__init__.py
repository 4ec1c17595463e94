"""Use cases of the central bank's Pix API."""
