"""Admission webhooks: configuration, dispatch, requests."""
