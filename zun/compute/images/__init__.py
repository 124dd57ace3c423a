"""Images, files, volumes and terminals of a host."""
