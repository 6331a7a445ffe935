"""Every algorithm once, over CasADi SX, for any serial or tree robot."""
