"""SQL of pix api."""
