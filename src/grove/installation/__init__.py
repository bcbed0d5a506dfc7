"""Manifests of an installation of Grove, as objects to apply. Pure: applying them is not done here."""
