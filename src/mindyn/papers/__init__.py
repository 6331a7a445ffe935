"""What reproduces the tables, figures and experiments of the five papers, and nothing that anything else needs."""
