// Inverse dynamics through one pin as Pinocchio's users write it: rnea on the tree, densely projected.
#include <pinocchio/algorithm/frames.hpp>
#include <pinocchio/algorithm/jacobian.hpp>
#include <pinocchio/algorithm/kinematics.hpp>
#include <pinocchio/algorithm/rnea.hpp>

#include "arm.hpp"

namespace
{
// The joints that arms have, and one that Pinocchio asks for: compiled in a fifth of the time, and visited faster.
template <typename Scalar, int Options>
struct ArmJoints
{
  using JointModelVariant =
    boost::variant<pinocchio::JointModelRX, pinocchio::JointModelRY, pinocchio::JointModelRZ,
                   pinocchio::JointModelRevoluteUnaligned, pinocchio::JointModelPX, pinocchio::JointModelPY,
                   pinocchio::JointModelPZ, pinocchio::JointModelPrismaticUnaligned,
                   boost::recursive_wrapper<pinocchio::JointModelMimicTpl<Scalar, Options, ArmJoints>>>;
  using JointDataVariant =
    boost::variant<pinocchio::JointDataRX, pinocchio::JointDataRY, pinocchio::JointDataRZ,
                   pinocchio::JointDataRevoluteUnaligned, pinocchio::JointDataPX, pinocchio::JointDataPY,
                   pinocchio::JointDataPZ, pinocchio::JointDataPrismaticUnaligned,
                   boost::recursive_wrapper<pinocchio::JointDataMimicTpl<Scalar, Options, ArmJoints>>>;
};
using Model = pinocchio::ModelTpl<double, 0, ArmJoints>;
using Data = pinocchio::DataTpl<double, 0, ArmJoints>;
using Row = Eigen::Map<const Eigen::VectorXd>;
using Small = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, 0, 8, 8>;
using Points = Eigen::Matrix<double, 3, Eigen::Dynamic, 0, 3, 8>;
struct Loop
{
  Model model;
  Data data;
  pinocchio::FrameIndex ends[2];
  std::vector<int> primary, dependent;
  Data::Matrix6x first, second;
};

Model with_ends(Model model, const double *ends)
{
  for (int k = 0; k < 2; ++k)
  {
    const double *end = ends + 4 * k;
    const auto joint = static_cast<pinocchio::JointIndex>(end[0]);
    const pinocchio::SE3 place(Eigen::Matrix3d::Identity(), Eigen::Map<const Eigen::Vector3d>(end + 1));
    model.addFrame(pinocchio::Frame("end" + std::to_string(k), joint, 0, place, pinocchio::OP_FRAME));
  }
  return model;
}
}  // namespace

extern "C"
{
  // ends: for either end of the pin its joint (from 1) and its point in the joint's frame; chosen: 1 for primary joints.
  void *loop_make(int joints, const double *numbers, const double *gravity, const double *ends, const double *chosen)
  {
    const Model model = with_ends(arm<Model>(joints, numbers, gravity), ends);
    auto *loop = new Loop{model, Data(model), {model.getFrameId("end0"), model.getFrameId("end1")}, {}, {},
                          Data::Matrix6x::Zero(6, joints), Data::Matrix6x::Zero(6, joints)};
    for (int i = 0; i < joints; ++i)
      (chosen[i] != 0 ? loop->primary : loop->dependent).push_back(i);
    return loop;
  }

  // q (N, n) closed; pd, pdd, tau (N, k).
  void loop_torques(void *handle, const double *q, const double *pd, const double *pdd, double *tau, long count)
  {
    using namespace pinocchio;
    Loop &loop = *static_cast<Loop *>(handle);
    const int n = loop.model.nv, k = static_cast<int>(loop.primary.size());
    const int r = static_cast<int>(loop.dependent.size());
    Eigen::VectorXd qd(n), qdd(n), full(n);
    Small W(n, k);
    Points J_d(3, r), J_p(3, k);
    for (long s = 0; s < count; ++s)
    {
      const Row at(q + s * n, n), rate(pd + s * k, k), change(pdd + s * k, k);
      computeJointJacobians(loop.model, loop.data, at);
      updateFramePlacements(loop.model, loop.data);
      getFrameJacobian(loop.model, loop.data, loop.ends[0], LOCAL_WORLD_ALIGNED, loop.first);
      getFrameJacobian(loop.model, loop.data, loop.ends[1], LOCAL_WORLD_ALIGNED, loop.second);
      for (int i = 0; i < r; ++i)
        J_d.col(i) = (loop.second - loop.first).topRows<3>().col(loop.dependent[i]);
      for (int i = 0; i < k; ++i)
        J_p.col(i) = (loop.second - loop.first).topRows<3>().col(loop.primary[i]);
      const auto solver = (J_d.transpose() * J_d).ldlt();
      const Small W_d = -solver.solve(J_d.transpose() * J_p);
      W.setZero();
      for (int i = 0; i < k; ++i)
        W(loop.primary[i], i) = 1;
      for (int i = 0; i < r; ++i)
        W.row(loop.dependent[i]) = W_d.row(i);
      qd.noalias() = W * rate;
      qdd.setZero();
      forwardKinematics(loop.model, loop.data, at, qd, qdd);
      const Eigen::Vector3d drift =
        getFrameClassicalAcceleration(loop.model, loop.data, loop.ends[1], LOCAL_WORLD_ALIGNED).linear() -
        getFrameClassicalAcceleration(loop.model, loop.data, loop.ends[0], LOCAL_WORLD_ALIGNED).linear();
      const Eigen::VectorXd bias = -solver.solve(J_d.transpose() * drift);
      qdd.noalias() = W * change;
      for (int i = 0; i < r; ++i)
        qdd[loop.dependent[i]] += bias[i];
      full = rnea(loop.model, loop.data, at, qd, qdd);
      Eigen::Map<Eigen::VectorXd>(tau + s * k, k).noalias() = W.transpose() * full;
    }
  }
}
