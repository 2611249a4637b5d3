"""The commands: each parses its options, asks the library, and prints the answer."""
