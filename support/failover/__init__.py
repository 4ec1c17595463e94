"""``make failover``: the money while the database's machines fail one after the other, under load."""
