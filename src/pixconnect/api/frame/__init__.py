"""What every operation stands on: requests decoded, callers authenticated, answers wrapped."""
