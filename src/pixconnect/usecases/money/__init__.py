"""Money as the service moves it: charges, transfers and refunds, and the rail's reports about them."""
