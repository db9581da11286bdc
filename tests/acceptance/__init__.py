"""Acceptance tests: what a user sees, through public names and the command line only."""
