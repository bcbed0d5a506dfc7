"""Builds a release into `dist/`: `python -m release`, or `make release`."""
