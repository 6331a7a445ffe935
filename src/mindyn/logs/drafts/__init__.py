"""Draft the metadata of a log from its columns."""
