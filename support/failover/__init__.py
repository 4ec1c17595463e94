"""``make failover``: what becomes of money while the database's machines fail, one after the other, under load."""
