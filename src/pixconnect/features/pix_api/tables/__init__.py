"""SQL of the central bank's Pix API."""
