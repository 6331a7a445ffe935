// An arm from plain numbers as a Pinocchio model of any scalar: what all peers are built from.
#pragma once

#include <pinocchio/multibody.hpp>

// The joint types of an arm alone. A joint is a variant of the types of its collection: with the default collection of
// 25 types Pinocchio takes 7 to 19 % longer.
template <typename S, int O>
struct ArmJointsTpl
{
  typedef S Scalar;
  static constexpr int Options = O;
  typedef pinocchio::JointModelRevoluteTpl<S, O, 0> JointModelRX;
  typedef pinocchio::JointModelRevoluteTpl<S, O, 1> JointModelRY;
  typedef pinocchio::JointModelRevoluteTpl<S, O, 2> JointModelRZ;
  typedef pinocchio::JointModelRevoluteUnalignedTpl<S, O> JointModelRevoluteUnaligned;
  typedef pinocchio::JointModelPrismaticTpl<S, O, 0> JointModelPX;
  typedef pinocchio::JointModelPrismaticTpl<S, O, 1> JointModelPY;
  typedef pinocchio::JointModelPrismaticTpl<S, O, 2> JointModelPZ;
  typedef pinocchio::JointModelPrismaticUnalignedTpl<S, O> JointModelPrismaticUnaligned;
  typedef pinocchio::JointModelCompositeTpl<S, O, ::ArmJointsTpl> JointModelComposite;
  typedef pinocchio::JointModelMimicTpl<S, O, ::ArmJointsTpl> JointModelMimic;
  typedef boost::variant<JointModelRX, JointModelRY, JointModelRZ, JointModelRevoluteUnaligned, JointModelPX,
                         JointModelPY, JointModelPZ, JointModelPrismaticUnaligned,
                         boost::recursive_wrapper<JointModelComposite>, boost::recursive_wrapper<JointModelMimic>>
    JointModelVariant;
  typedef pinocchio::JointDataRevoluteTpl<S, O, 0> JointDataRX;
  typedef pinocchio::JointDataRevoluteTpl<S, O, 1> JointDataRY;
  typedef pinocchio::JointDataRevoluteTpl<S, O, 2> JointDataRZ;
  typedef pinocchio::JointDataRevoluteUnalignedTpl<S, O> JointDataRevoluteUnaligned;
  typedef pinocchio::JointDataPrismaticTpl<S, O, 0> JointDataPX;
  typedef pinocchio::JointDataPrismaticTpl<S, O, 1> JointDataPY;
  typedef pinocchio::JointDataPrismaticTpl<S, O, 2> JointDataPZ;
  typedef pinocchio::JointDataPrismaticUnalignedTpl<S, O> JointDataPrismaticUnaligned;
  typedef pinocchio::JointDataCompositeTpl<S, O, ::ArmJointsTpl> JointDataComposite;
  typedef pinocchio::JointDataMimicTpl<S, O, ::ArmJointsTpl> JointDataMimic;
  typedef boost::variant<JointDataRX, JointDataRY, JointDataRZ, JointDataRevoluteUnaligned, JointDataPX, JointDataPY,
                         JointDataPZ, JointDataPrismaticUnaligned, boost::recursive_wrapper<JointDataComposite>,
                         boost::recursive_wrapper<JointDataMimic>>
    JointDataVariant;
};
typedef pinocchio::ModelTpl<double, 0, ArmJointsTpl> ArmModel;
typedef pinocchio::DataTpl<double, 0, ArmJointsTpl> ArmData;

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
