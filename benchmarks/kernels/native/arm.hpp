// An arm from plain numbers as a Pinocchio model of any scalar: what both peers are built from.
#pragma once

#include <pinocchio/multibody.hpp>

// For each joint 30 numbers: parent (0 is the root), kind (0 revolute, 1 prismatic), axis[3], rotation[9] and
// translation[3] of the joint in its parent, mass, centre of mass[3], inertia[9] of the body about its centre of mass.
constexpr int NUMBERS_OF_A_JOINT = 30;

template <typename Model, typename Revolute, typename Prismatic>
pinocchio::JointIndex add(Model &model, const double *joint, const Revolute &revolute,
                          const Prismatic &prismatic, const pinocchio::SE3 &placement, const std::string &name)
{
  const auto parent = static_cast<pinocchio::JointIndex>(joint[0]);
  return joint[1] == 0 ? model.addJoint(parent, revolute, placement, name)
                       : model.addJoint(parent, prismatic, placement, name);
}

template <typename Model = pinocchio::Model>
Model arm(int joints, const double *numbers, const double *gravity)
{
  using namespace pinocchio;
  using Matrix = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
  Model model;
  model.gravity.linear() = Eigen::Map<const Eigen::Vector3d>(gravity);
  for (int k = 0; k < joints; ++k)
  {
    const double *joint = numbers + k * NUMBERS_OF_A_JOINT;
    const Eigen::Vector3d axis = Eigen::Map<const Eigen::Vector3d>(joint + 2);
    const SE3 placement(Eigen::Map<const Matrix>(joint + 5), Eigen::Map<const Eigen::Vector3d>(joint + 14));
    const std::string name = "joint" + std::to_string(k);
    JointIndex index;
    // Joints along a coordinate axis have faster types of their own.
    if (axis == Eigen::Vector3d::UnitX())
      index = add(model, joint, JointModelRX(), JointModelPX(), placement, name);
    else if (axis == Eigen::Vector3d::UnitY())
      index = add(model, joint, JointModelRY(), JointModelPY(), placement, name);
    else if (axis == Eigen::Vector3d::UnitZ())
      index = add(model, joint, JointModelRZ(), JointModelPZ(), placement, name);
    else
      index = add(model, joint, JointModelRevoluteUnaligned(axis), JointModelPrismaticUnaligned(axis), placement, name);
    const Inertia body(joint[17], Eigen::Map<const Eigen::Vector3d>(joint + 18), Eigen::Map<const Matrix>(joint + 21));
    model.appendBodyToJoint(index, body, SE3::Identity());
  }
  return model;
}
