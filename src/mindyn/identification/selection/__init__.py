"""Select what the user did not give: search space, trials on held-out blocks, estimator."""
