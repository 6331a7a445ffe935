// Stands for pluginlib's macro: checks that the plugin is a class of the interface that can be made without arguments.
#pragma once

#include <memory>
#define PLUGINLIB_EXPORT_CLASS(Plugin, Interface) \
  extern "C" Interface *make_plugin() { return std::make_unique<Plugin>().release(); }
