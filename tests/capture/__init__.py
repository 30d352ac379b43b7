"""Capture: what is accepted, delivered, set aside."""
