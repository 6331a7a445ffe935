"""The command line, one file for each command. Results go to stdout, status lines to stderr."""
