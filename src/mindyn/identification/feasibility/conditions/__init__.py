"""Conditions on the parameters of real links: mass distributions, limits that users or robot files give, and priors."""
