"""Many robots of one type and all their logs: estimates of each, and who differs from the type or drifts."""
