# The public names in the order of the work; `import_lazily` imports each when it is first used.
# ruff: noqa: I001
from mindyn.robots.parts import Frame as Frame, Shape as Shape, Limits as Limits, Loop as Loop, Mimic as Mimic
from mindyn.robots.friction_laws import (
    FrictionLaw as FrictionLaw,
    stribeck as stribeck,
)
from mindyn.robots.floating_base import (
    body_coordinates as body_coordinates,
    from_free_flyer as from_free_flyer,
    to_free_flyer as to_free_flyer,
)
from mindyn.robots.meshes import Meshes as Meshes, read_meshes as read_meshes
from mindyn.robots.description import Description as Description
from mindyn.robots.loading import ROBOT_FORMATS as ROBOT_FORMATS
