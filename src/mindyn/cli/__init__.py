"""The command line: one file for each command. stdout is data, stderr is talk."""
