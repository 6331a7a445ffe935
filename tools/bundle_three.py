"""Bundle three.js for the page of `mindyn view`: python tools/bundle_three.py (needs npm and a network).

Writes the script and its licence into the package. The versions below decide its bytes: the same ones give the same
file. Change a version here, run this file, look at the pages, and commit both.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

THREE, ESBUILD = "0.187.0", "0.28.2"
ASSETS = Path(__file__).parents[1] / "src" / "mindyn" / "output" / "view" / "assets"
ENTRY = """
export {
  BoxGeometry, BufferAttribute, BufferGeometry, CapsuleGeometry, Color, DirectionalLight, DoubleSide, EdgesGeometry,
  GridHelper, Group, HemisphereLight, LineBasicMaterial, LineSegments, Matrix4, Mesh, MeshBasicMaterial,
  MeshLambertMaterial, PerspectiveCamera, Quaternion, Scene, SphereGeometry, Spherical, Vector3, WebGLRenderer,
} from "three";
export { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
"""
OPTIONS = ("--bundle", "--minify", "--format=iife", "--global-name=THREE", "--legal-comments=none", "--charset=ascii")


def main() -> None:
    """Install three.js and esbuild into a temporary folder, bundle, and write script and licence."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(
            ["npm", "install", "--no-save", "--ignore-scripts", f"three@{THREE}", f"esbuild@{ESBUILD}"],
            cwd=folder,
            check=True,
        )
        (folder / "entry.js").write_text(ENTRY)
        bundled = folder / "three.js"
        esbuild = folder / "node_modules" / ".bin" / "esbuild"
        subprocess.run([esbuild, "entry.js", *OPTIONS, f"--outfile={bundled}"], cwd=folder, check=True)
        script = bundled.read_text()
        if "</script" in script.lower() or "<!--" in script:
            sys.exit("the bundle contains text that ends a script element")
        head = (
            f"/*! three.js {THREE} and its OrbitControls, MIT licence: see three-licence.txt; tools/bundle_three.py */"
        )
        (ASSETS / "three.js").write_text(f"{head}\n{script}")
        (ASSETS / "three-licence.txt").write_text((folder / "node_modules" / "three" / "LICENSE").read_text())
    print(f"wrote {', '.join(sorted(path.name for path in ASSETS.glob('three*')))} to {ASSETS}")


if __name__ == "__main__":
    main()
