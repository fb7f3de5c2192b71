"""What would happen if: speed of light and expected time of a step under changes."""
