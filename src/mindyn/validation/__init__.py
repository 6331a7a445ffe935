"""How good an estimate is on rows it has not seen."""
