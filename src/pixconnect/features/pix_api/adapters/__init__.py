"""What reaches other servers of pix api."""
