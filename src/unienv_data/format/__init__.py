"""What is on disk: columns of a space, one piece file, the manifest, file names."""
