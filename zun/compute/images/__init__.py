"""Images, files and terminals of a host."""
