"""Spec files: their schemas (`schema`), where they are found (`library`), and their validation."""
