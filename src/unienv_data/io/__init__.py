"""Files and directories: atomic replacement, mapped files, locks."""
