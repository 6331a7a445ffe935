"""Forward dynamics in time: one accurate simulation, thousands of rollouts at once, and what sensors would see."""
