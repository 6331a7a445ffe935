"""A typical URDF: fixed parts, a tool frame, meshes, limits, comments and a placeholder of friction."""

from __future__ import annotations

URDF = """<?xml version="1.0"?>
<robot name="bench_arm">
  <!-- drawn in the workshop -->
  <link name="world"/>
  <link name="pedestal">
    <inertial><mass value="9"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>
  </link>
  <joint name="bolts" type="fixed"><parent link="world"/><child link="pedestal"/></joint>
  <link name="upper">
    <inertial>
      <origin xyz="0.1 0.02 0.03" rpy="0 0 0"/><mass value="3.0"/>
      <inertia ixx="0.02" ixy="0.001" ixz="0" iyy="0.05" iyz="0.002" izz="0.06"/>
    </inertial>
    <visual><geometry><mesh filename="upper.stl" scale="1 1 1"/></geometry></visual>
    <collision><origin xyz="0.15 0 0"/><geometry><box size="0.4 0.1 0.1"/></geometry></collision>
  </link>
  <joint name="shoulder" type="revolute">
    <origin xyz="0 0 0.4" rpy="0 0 0"/><parent link="pedestal"/><child link="upper"/><axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" velocity="3" effort="80"/>
    <dynamics damping="0.5" friction="0.25"/>
    <safety_controller k_velocity="1"/>
  </joint>
  <link name="fore">
    <inertial>
      <origin xyz="0.12 0 0.01" rpy="0 0 0"/><mass value="1.5"/>
      <inertia ixx="0.006" ixy="0" ixz="0.0005" iyy="0.02" iyz="0" izz="0.02"/>
    </inertial>
  </link>
  <joint name="elbow" type="revolute">
    <origin xyz="0.35 0.05 0" rpy="0.3 0.2 0.1"/><parent link="upper"/><child link="fore"/><axis xyz="0 0 1"/>
    <limit lower="-2.5" upper="2.5" velocity="3" effort="40"/>
  </joint>
  <link name="gripper">
    <inertial>
      <origin xyz="0 0 0.05" rpy="0 0 0"/><mass value="0.6"/>
      <inertia ixx="0.001" ixy="0" ixz="0" iyy="0.001" iyz="0" izz="0.0008"/>
    </inertial>
    <visual><geometry><mesh filename="gripper.stl"/></geometry></visual>
  </link>
  <joint name="flange" type="fixed">
    <origin xyz="0.25 0 0" rpy="0 1.5707963267948966 0"/><parent link="fore"/><child link="gripper"/>
  </joint>
  <link name="tool0"/>
  <joint name="tip" type="fixed"><origin xyz="0 0 0.1"/><parent link="gripper"/><child link="tool0"/></joint>
  <transmission name="t1"><type>simple</type><joint name="shoulder"/></transmission>
</robot>
"""
