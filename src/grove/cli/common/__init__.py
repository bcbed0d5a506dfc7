"""Building blocks that several commands share: options, connection, manifests, output."""
