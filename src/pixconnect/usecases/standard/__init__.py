"""What only the central bank's API has: its names for charges, locations, Pix received and refunds."""
