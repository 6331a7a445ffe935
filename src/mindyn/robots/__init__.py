"""Robots as frozen values: links, joints, drives, loops; readers; joint frames; bundled robots."""
