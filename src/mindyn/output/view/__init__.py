"""One page that shows a robot in space, with a motion or a log."""
