"""Money as the service moves it: charges, transfers and refunds, and what the rail says of them."""
