// Stands for pluginlib's macro: a C function makes the plugin that pluginlib would load by name.
#pragma once

#define PLUGINLIB_EXPORT_CLASS(Plugin, Base) \
  extern "C" Base *make_plugin();            \
  extern "C" Base *make_plugin()             \
  {                                          \
    return new Plugin();                     \
  }
