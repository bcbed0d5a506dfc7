"""What may be stored: defaults and rules applied to a write before an API server accepts it. Pure."""
