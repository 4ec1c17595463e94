"""Records of look-ups."""
