"""Read the tables of log files, one file per format."""
