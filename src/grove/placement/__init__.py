"""Where pods go: what fits which node, which pods must come together. Pure: asked by a scheduler, binds nothing."""
