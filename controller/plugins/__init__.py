"""The plugins of the plan pipeline, one framework or concern each, in a visible order."""
