"""Explanations: what an object waits for, what happens next and when, as text for `grove why`."""
