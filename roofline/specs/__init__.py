"""Spec files: what they may say (`schema`), where they are found (`library`), and what is wrong with them."""
