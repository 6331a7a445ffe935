"""Run tasks in worker processes of this machine, or on an executor of the user."""
