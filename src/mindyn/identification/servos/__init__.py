"""Position servos by output error: what a simulated arm needs to follow targets as the real one does."""
