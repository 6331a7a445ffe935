"""Forward dynamics in time: accurate simulations, thousands of rollouts at once, and simulated sensors."""
