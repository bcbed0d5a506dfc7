"""CustomResourceDefinitions: schemas generated from the types, with markers, limits and descriptions."""
